"""Become the job's script in a process that was forked from a warm interpreter.

The script must not be able to tell: its `__main__`, arguments, paths, environment, descriptors,
signals, seeds and exit are those of `python script.py`. What differs is in docs/warm.md.

Part of the warm interpreter: it runs as the job's user in the job's Python (3.9 or newer), and
imports the standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import time
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from types import TracebackType
from typing import Any

ARG_START, ARG_END, ENV_START, ENV_END = 45, 46, 47, 48  # of /proc/self/stat, after the name
TAG = b"TREADLE_ATTEMPT_TAG="


class Task:
    """What a rank has to run, and how the warm interpreter looked before it was forked."""

    def __init__(self, document: dict[str, Any], main: dict[str, Any]) -> None:
        self.argv: list[str] = document["argv"]  # the whole command
        self.env: dict[str, str] = document["env"]
        self.cwd: str = document["cwd"]
        self.cpus: list[int] = document["cpus"]
        self.main = main  # what `__main__` holds before a script runs
        self.learned = -1  # where to write the names of more modules
        self.printed = b""  # what the imports printed


# -- commands -------------------------------------------------------------------------------------


def parts(argv: list[str]) -> tuple[str | None, str | None, list[str]]:
    """Of a command: the script, the module, and what is `sys.argv`."""
    rest = argv[1:]
    while rest and rest[0] == "-u":
        rest = rest[1:]
    if rest[:1] == ["-m"]:
        return None, rest[1], ["-m", *rest[2:]]
    return rest[0], None, rest


def absolute(script: str, cwd: str) -> str:
    """The script's path as Python writes it into `__file__`."""
    if script.startswith("/"):
        return script
    return f"{cwd}/{script}"


# -- before it runs -------------------------------------------------------------------------------


def put_on(task: Task, kept: set[int], output: int) -> None:
    """Take on everything that is the rank's own. Raises OSError with a sentence as its file name.

    kept: descriptors that the imports opened; all others are closed.
    """
    os.setpgid(0, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if task.cpus:
        with suppress(OSError):
            os.sched_setaffinity(0, task.cpus)
    os.chdir(task.cwd)
    for file in _descriptors() - kept:
        with suppress(OSError):
            os.close(file)
    _set_environment(task.env)
    _set_signals()
    _seed()
    _set_main(task)
    _set_names(task)
    if task.printed:
        os.write(2, task.printed)


def _descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd")}


def _set_environment(env: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    initial = getattr(sys.modules.get("posix"), "environ", None)
    if isinstance(initial, dict):
        initial.clear()
        initial.update({os.fsencode(name): os.fsencode(value) for name, value in env.items()})


def _set_signals() -> None:
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _seed() -> None:
    """Random numbers of its own: not those of the warm interpreter or of another rank."""
    modules = sys.modules
    if "random" in modules:
        modules["random"].seed()
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    generator = getattr(modules.get("torch"), "default_generator", None)
    if generator is not None:
        generator.seed()
    process = modules.get("multiprocessing.process")
    if process is not None:
        process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
        process.current_process().authkey = os.urandom(32)
    logging = modules.get("logging")
    if logging is not None:
        logging._startTime = time.time_ns() if sys.version_info >= (3, 13) else time.time()  # type: ignore[attr-defined]
    threading = modules.get("threading")
    if threading is not None:
        set_native = getattr(threading.main_thread(), "_set_native_id", None)
        if set_native is not None:
            set_native()


def _set_main(task: Task) -> None:
    script, _, argv = parts(task.argv)
    sys.argv = argv
    sys.orig_argv = list(task.argv)
    names = sys.modules["__main__"].__dict__
    names.clear()
    names.update(task.main)
    folder = task.cwd
    if script is not None:
        file = absolute(script, task.cwd)
        names["__file__"] = file
        names["__cached__"] = None
        names["__loader__"] = SourceFileLoader("__main__", file)
        folder = os.path.dirname(os.path.realpath(file))
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def _set_names(task: Task) -> None:
    """Write command and environment where /proc shows them, as setproctitle does."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[ARG_START]), int(fields[ARG_END])
    if 0 < start < end - 1:
        title = b" ".join(map(os.fsencode, task.argv))[: end - start - 2]
        # A last byte that is not 0 says that the title is one string.
        ctypes.memmove(start, title.ljust(end - start - 1, b"\0") + b"\1", end - start)
    start, end = int(fields[ENV_START]), int(fields[ENV_END])
    if 0 < start < end:
        pairs = [os.fsencode(f"{name}={value}") for name, value in task.env.items()]
        pairs.sort(key=lambda pair: not pair.startswith(TAG))
        area, room = b"", end - start
        for pair in pairs:
            if len(area) + len(pair) + 1 <= room:
                area += pair + b"\0"
        ctypes.memmove(start, area.ljust(room, b"\0"), room)


# -- running --------------------------------------------------------------------------------------


def run(task: Task) -> None:
    """Run the script to its end, as the interpreter's own main program does."""
    known = set(sys.modules)
    error = _raised_by(task)
    _tell_learned(task.learned, known)
    if error is None:
        return
    if isinstance(error, SystemExit):
        raise error
    # Not while the exception is handled: a hook of the script's must not see that.
    _report(error)
    if isinstance(error, KeyboardInterrupt):  # The interpreter ends by SIGINT then.
        sys.excepthook = lambda *_: None
        raise error
    raise SystemExit(1)


def _raised_by(task: Task) -> BaseException | None:
    script, module, _ = parts(task.argv)
    try:
        if script is None:
            runpy._run_module_as_main(module)  # type: ignore[attr-defined]
        else:
            names = sys.modules["__main__"].__dict__
            with open(names["__file__"], "rb") as file:
                source = file.read()
            code = compile(source, names["__file__"], "exec", dont_inherit=True)
            exec(code, names)
    except BaseException as error:
        return error
    return None


def _report(error: BaseException) -> None:
    """Show an exception that the script did not catch, without our own frames."""
    trace = _stripped(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    another = _raised_by_hook(error)
    if another is None:
        return
    if isinstance(another, SystemExit):
        raise another
    sys.stderr.write("Error in sys.excepthook:\n")
    sys.__excepthook__(type(another), another, _stripped(another))
    sys.stderr.write("\nOriginal exception was:\n")
    sys.__excepthook__(type(error), error, trace)


def _raised_by_hook(error: BaseException) -> BaseException | None:
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException as another:
        return another
    return None


def _stripped(error: BaseException) -> TracebackType | None:
    """Its traceback without our own frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") == __name__:
        trace = trace.tb_next
    error.__traceback__ = trace
    return trace


def _tell_learned(pipe: int, known: set[str]) -> None:
    """Say which modules the script imported in addition, for the runs after it."""
    if pipe < 0:
        return
    line = b""
    try:
        os.set_blocking(pipe, False)
        for name in [name for name in list(sys.modules) if name not in known]:
            piece = name.encode(errors="replace") + b" "
            if len(line) + len(piece) > 4000:  # A write of at most 4096 bytes is not torn.
                os.write(pipe, line + b"\n")
                line = b""
            line += piece
        os.write(pipe, line + b"\n")
    except (OSError, RuntimeError):
        pass
