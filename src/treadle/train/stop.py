"""The stop signal: one question in the loop instead of signal handling.

    if train.should_stop():
        save()
        train.leave()

Standard library only; torch is asked if the script has a process group, so that all ranks get the
same answer at the same step.
"""

import atexit
import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

STOPPED = 128 + signal.SIGTERM  # the exit code of a job that stopped as it was asked to
BEFORE_IT_BEGAN = b"treadle: asked to stop before the training began\n"


class StopSignal:
    """Whether this process was asked to stop."""

    def __init__(self) -> None:
        self.asked = False
        self.at_once: Callable[[], bool] = lambda: False  # nothing is lost if it ends now
        self._pid = 0  # of the process that takes the signal

    def install(self) -> None:
        """Take the signal from now on; only the main thread can."""
        if self._pid == os.getpid():
            return
        if threading.current_thread() is not threading.main_thread():
            return
        self._pid = os.getpid()
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # one that the script forked: its parent wants it to end
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.asked = True
        if self.at_once():
            self._end()

    @contextmanager
    def ends_at_once(self) -> Iterator[None]:
        """Around what may take long and has nothing to lose: a stop ends this process there."""
        if self.asked:
            self._end()
        usual, self.at_once = self.at_once, lambda: True
        try:
            yield
        finally:
            self.at_once = usual

    def _end(self) -> NoReturn:
        with suppress(RuntimeError):  # The signal may have come while something was written.
            _flush()
        with suppress(OSError):
            os.write(2, BEFORE_IT_BEGAN)
        os._exit(STOPPED)


STOP = StopSignal()


def should_stop() -> bool:
    """Whether the job was asked to stop; the same on all ranks of a torch process group.

    With a process group it is one small collective, so all ranks must call it equally often.
    """
    STOP.install()
    torch = sys.modules.get("torch")
    group = getattr(torch, "distributed", None)
    if torch is None or group is None or not group.is_available() or not group.is_initialized():
        return STOP.asked
    device = "cuda" if group.get_backend() == "nccl" else "cpu"
    flag = torch.tensor([float(STOP.asked)], device=device)
    group.all_reduce(flag, op=group.ReduceOp.MAX)
    return bool(flag.item())


def leave(code: int = STOPPED) -> NoReturn:
    """End this process with the exit code that says it can be resumed."""
    exit_now(code)


def end_without_teardown() -> None:
    """Let this process end in the usual way up to the interpreter's teardown, but not with it.

    A survivor of a lost peer did not leave the interpreter in 3 of 10 trials, with threads of gloo
    that wait for each other; with `os._exit` in 12 of 12. During the teardown it is too late.
    """
    if not _END.without_teardown and not sys.is_finalizing():
        _END.without_teardown = True
        _see_exit_code()


def _see_exit_code() -> None:
    """Note the exit code of a `SystemExit` that ends the interpreter.

    Nothing tells an exit handler that code, and `sys.excepthook` is not called. But the interpreter
    reads `code` of the exception before it runs exit handlers, and then no Python code calls: so
    that attribute becomes a property. A built-in class can only be changed through its dictionary.
    """
    plain = SystemExit.__dict__["code"]

    def read(error: SystemExit) -> Any:  # noqa: ANN401
        status = plain.__get__(error, SystemExit)
        if sys._getframe().f_back is None:  # else the script asks, and goes on
            _END.code = status if isinstance(status, int) else int(status is not None)
        return status

    content: dict[str, Any] = gc.get_referents(SystemExit.__dict__)[0]
    content["code"] = property(read, plain.__set__, plain.__delete__)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(SystemExit))  # Lookups are cached.
    if sys.version_info < (3, 12):
        _raise_in_python()


def _raise_in_python() -> None:
    """Before Python 3.12 `sys.exit(3)` itself makes no exception with a `code`, only its status."""
    usual = sys.exit

    def leave_with(status: Any = None, /) -> NoReturn:  # noqa: ANN401
        raise SystemExit(status)

    for module in list(sys.modules.values()):  # Scripts write `from sys import exit`.
        names = getattr(module, "__dict__", {})
        for name in [name for name, value in list(names.items()) if value is usual]:
            names[name] = leave_with


class _End:
    """How this process is to end."""

    code = 0
    without_teardown = False


_END = _End()


def _end() -> None:
    if _END.without_teardown:
        _flush()
        # Python notes an error that ends it there, whatever hook the script has for it.
        failed = getattr(sys, "last_value", None) is not None
        os._exit(_END.code or int(failed))


atexit.register(_end)  # so early that the exit handlers of others run before it


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def exit_now(code: int) -> NoReturn:
    """End without the interpreter's teardown, which may block after a peer has died."""
    _END.without_teardown = False
    with suppress(Exception):
        atexit._run_exitfuncs()
    _flush()
    os._exit(code)
