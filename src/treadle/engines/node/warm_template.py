"""The warm interpreter of one user: it has imported what jobs import, and forks their ranks.

    warm interpreter    waits for requests; ends when its engine does, or when it was idle for long
      keeper            one for each rank: its parent, and the reaper of what it leaves behind
        rank            the job's script (warm_script.py)

All three run as the job's user. A keeper does not need the warm interpreter any more, so that one
may end at any time. A keeper belongs to its supervisor: it ends, with all that it started, when the
supervisor closes their socket. The supervisor trusts nothing that it hears from here: see
warm_rank.py.

Part of the warm interpreter: it runs in the job's Python (3.9 or newer), and imports the standard
library alone.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from treadle.engines.node.warm_imports import Files, import_all, read_script, shadowed
from treadle.engines.node.warm_script import Task, absolute, parts, put_on, run

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
REQUEST_BYTES, FILES_MIN, FILES_MAX = 1 << 18, 4, 5
PRINTED_BYTES = 1 << 16
LEARNED_MAX = 4096  # modules that jobs imported in addition
BEGINS = b"\1"


def main(document: dict[str, Any], names: dict[str, Any]) -> None:
    """Serve as a warm interpreter. It returns in a rank whose script has ended.

    names: what `__main__` holds before a script runs.
    """
    task = Template(document, names).serve()
    if task is None:
        os._exit(0)
    run(task)


class Template:
    """A warm interpreter that serves requests."""

    def __init__(self, document: dict[str, Any], main: dict[str, Any]) -> None:
        self._control = socket.socket(fileno=document["control"])
        self._printed_end: int = document["printed"]
        self._idle_s: float = document["idle_s"]
        self._bytes_max: int = document["bytes_max"]
        self._main = main
        self._env = dict(os.environ)
        self._files = Files()
        self._kept = {0, 1, 2}  # and what imports opened: a rank keeps these
        self._keepers: dict[int, int] = {}  # pidfd -> pid
        self._learned, self._teach = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wanted: dict[str, None] = {}  # modules to import when there is time
        self._tried: set[str] = set()
        self._printed = b""
        self._poll = select.poll()
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._learned, select.POLLIN)
        for file in (document["control"], self._printed_end):
            os.set_inheritable(file, False)
        self._want(document["argv"], document["cwd"])

    def serve(self) -> Task | None:
        """Serve until the engine is gone. It returns in a rank, with its task; else None."""
        used_at = time.monotonic()
        self._import()
        while True:
            if self._wanted and not self._poll.poll(0):
                self._import()
            ready = self._poll.poll(1000 * max(0.0, used_at + self._idle_s - time.monotonic()))
            if not ready:
                return None
            for file, _ in ready:
                if file == self._learned:
                    self._learn()
                elif file in self._keepers:
                    self._reap(file)
                else:
                    used_at = time.monotonic()
                    message, files, _, _ = socket.recv_fds(self._control, REQUEST_BYTES, FILES_MAX)
                    for each in files:
                        os.set_inheritable(each, False)
                    if not message:
                        return None
                    task = self._answer(message, files)
                    if task is not None:
                        return task

    # -- importing ------------------------------------------------------------------------------

    def _want(self, argv: list[str], cwd: str) -> None:
        script, _, _ = parts(argv)
        if script is not None:
            path = absolute(script, cwd)
            found = read_script(path, os.path.dirname(os.path.realpath(path)))
            if not found.doubt:
                self._wanted.update(found.wanted)

    def _learn(self) -> None:
        try:
            names = os.read(self._learned, 1 << 16).decode(errors="replace").split()
        except BlockingIOError:
            return
        if len(self._tried) < LEARNED_MAX:
            self._wanted.update(dict.fromkeys(names))

    def _import(self) -> None:
        """Import what is wanted; end if it is not safe to fork afterwards."""
        names = [name for name in self._wanted if name not in self._tried]
        self._wanted.clear()
        if not names and self._tried:
            return
        self._control.send(b"busy")
        self._tried.update(names)
        before = _descriptors()
        gc.disable()
        import_all(names)
        gc.enable()
        gc.collect()
        gc.freeze()
        self._kept |= _descriptors() - before
        self._files.add_new()
        self._take_printed()
        trouble = _trouble(self._bytes_max)
        if trouble:
            self._control.send(f"ends {trouble}".encode()[:200])
            os._exit(0)
        self._control.send(b"ready")

    def _take_printed(self) -> None:
        """What the imports printed: a rank prints it, as the script itself would have."""
        sys.stdout.flush()
        sys.stderr.flush()
        with suppress(BlockingIOError):
            self._printed += os.read(self._printed_end, PRINTED_BYTES)
        self._printed = self._printed[:PRINTED_BYTES]

    # -- answering ------------------------------------------------------------------------------

    def _answer(self, message: bytes, files: list[int]) -> Task | None:
        """Fork a keeper for a request, or say that the rank must be launched cold."""
        keeper_end = socket.socket(fileno=files[1]) if len(files) > 1 else None
        try:
            if keeper_end is None or len(files) < FILES_MIN:
                return None
            request = json.loads(message)
            doubt = self._doubt(request["argv"], request["cwd"])
            if doubt:
                keeper_end.send(f"cold {doubt}".encode(errors="replace")[:400])
                return None
            pid = os.fork()
            if pid == 0:
                mine, files = files, []  # Below, what is left is closed: a rank keeps its own.
                return self._become_keeper(keeper_end, mine)
            handle = os.pidfd_open(pid)
            self._keepers[handle] = pid
            self._poll.register(handle, select.POLLIN)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        finally:
            if keeper_end is not None:
                keeper_end.detach()
            for file in files:
                _close(file)
        return None

    def _doubt(self, argv: list[str], cwd: str) -> str:
        """Why this command must be launched cold; empty if it may be started warm."""
        script, _, _ = parts(argv)
        folder = cwd
        if script is not None:
            path = absolute(script, cwd)
            if not os.path.isfile(path):
                return "the script is no file"
            folder = os.path.dirname(os.path.realpath(path))
            found = read_script(path, folder)
            if found.doubt:
                return found.doubt
            self._wanted.update({name: None for name in found.wanted if name not in self._tried})
        hidden = shadowed(folder)
        if hidden:
            return f"{hidden} has the name of a module that was imported"
        changed = self._files.changed()
        if changed:
            self._control.send(b"stale a module changed")
            self._idle_s = 0.0
            return f"{changed} changed"
        return ""

    def _reap(self, handle: int) -> None:
        self._poll.unregister(handle)
        os.close(handle)
        with suppress(ChildProcessError):
            os.waitpid(self._keepers.pop(handle), os.WNOHANG)

    # -- in the keeper --------------------------------------------------------------------------

    def _become_keeper(self, channel: socket.socket, files: list[int]) -> Task | None:
        """Enter the attempt's group and fork the rank. Returns its task in the rank."""
        try:
            os.setsid()
            _prctl(PR_SET_CHILD_SUBREAPER, 1)
            self._control.close()
            channel.send(b"keeper")
            if channel.recv(16) != b"go":
                os._exit(1)
            return self._fork_rank(channel, files)
        except BaseException:
            os._exit(1)

    def _fork_rank(self, channel: socket.socket, files: list[int]) -> Task | None:
        order, _, output, said = files[:FILES_MIN]
        channels = files[FILES_MIN:]
        keeper = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.write(said, f"{error.errno} no process could be forked: {error.strerror}".encode())
            os._exit(1)
        if pid:
            for file in (order, output, said, *channels):
                os.close(file)
            keep(channel, pid)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)
        complaint = "the rank could not be started"
        try:
            channel.send(b"rank")
            with os.fdopen(os.dup(order), "rb") as orders:
                orders.seek(0)
                document = json.loads(orders.read())
            task = Task(document, self._main)
            task.env.update(self._changed_environment())
            task.printed = self._printed
            task.learned = self._teach
            complaint = f"the working directory {task.cwd} cannot be entered"
            channel.detach()
            for line in channels:
                task.env["TREADLE_CHANNEL"] = str(line)
                os.set_inheritable(line, True)
            put_on(task, self._kept | {said, self._teach, *channels}, output)
            os.write(said, BEGINS)
            os.close(said)
        except BaseException as error:
            number = getattr(error, "errno", None) or 0
            why = getattr(error, "strerror", None) or error
            os.write(said, f"{number} {complaint}: {why}".encode(errors="replace")[:4000])
            os._exit(126)
        return task

    def _changed_environment(self) -> dict[str, str]:
        """What the imports themselves set."""
        known = self._env
        return {name: value for name, value in os.environ.items() if known.get(name) != value}


def keep(channel: socket.socket, rank: int) -> NoReturn:
    """Relay signals to the rank and its end to the supervisor; end with all it started."""
    told = False
    wake, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    poll.register(channel, select.POLLIN)
    while True:
        told = told or _tell_end(channel, rank)
        for pid in _children():
            if pid != rank:
                _wait_for(pid)
        for file, _ in poll.poll():
            if file == wake:
                os.read(wake, 4096)
                continue
            message = _received(channel)
            if not message:
                _clear(rank)
            word, _, number = message.partition(b" ")
            if word == b"signal":
                _signal(rank, int(number))


def _received(channel: socket.socket) -> bytes:
    try:
        return channel.recv(64)
    except OSError:
        return b""


def _tell_end(channel: socket.socket, rank: int) -> bool:
    """Whether it has ended; it stays a zombie, so that its number is not given again."""
    found = os.waitid(os.P_PID, rank, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return False
    killed = found.si_code != os.CLD_EXITED
    code = found.si_status + 128 if killed else found.si_status
    with suppress(OSError):
        channel.send(f"ended {code}".encode())
    return True


def _signal(rank: int, number: int) -> None:
    try:
        os.killpg(rank, number)
    except ProcessLookupError:  # It moved to another process group.
        with suppress(OSError):
            os.kill(rank, number)
    except PermissionError:
        pass


def _clear(rank: int) -> NoReturn:
    """Kill all children until there are none: whatever loses its parent becomes one."""
    _signal(rank, signal.SIGKILL)
    while True:
        children = _children()
        if not children:
            os._exit(0)
        for pid in children:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            _wait_for(pid)
        time.sleep(0.002)


def _wait_for(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _children() -> list[int]:
    try:
        with open("/proc/thread-self/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


# -- whether it is safe to fork -------------------------------------------------------------------


def _trouble(bytes_max: int) -> str:
    """Why no rank may be forked from this process any more; empty if it may."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA was initialised by an import"
    for file in _descriptors():
        try:
            if os.readlink(f"/proc/self/fd/{file}").startswith("/dev/nvidia"):
                return "an import opened a GPU"
        except OSError:
            continue
    if len(sys._current_frames()) > 1:
        return "an import started a thread"
    # Libraries that keep threads of their own (OpenBLAS) end them before a fork. What is still
    # there afterwards does not know about forks.
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    if len(os.listdir("/proc/self/task")) > 1:
        return "an import started a thread that does not end before a fork"
    if _resident_bytes() > bytes_max:
        return "the imports take too much memory"
    return ""


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd")}


def _close(file: int) -> None:
    with suppress(OSError):
        os.close(file)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
