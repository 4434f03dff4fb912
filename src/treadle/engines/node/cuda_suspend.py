"""Have NVIDIA's driver move the device memory of running processes to the host, and back.

The functions (`cuCheckpointProcess*`, driver 570 and later) take a process id and need no code in
that process. A process is locked, so that its calls wait, then checkpointed; later it is restored
and unlocked. It can be another process that restores it. What fails is taken back, so that the
process runs on: there is no state in between.

Part of the supervisor: it imports the standard library alone.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NoReturn

from treadle.engines.node.ranks import KILL, PR_SET_PDEATHSIG, prctl

DONE = b"done"
LIBRARY = "libcuda.so.1"
LOCK_WITHIN_MS = 10_000  # for the calls that are under way
RUNS, LOCKED, CHECKPOINTED = 0, 1, 2  # states of a process
SUCCESS, NOT_SUPPORTED = 0, 801
_ARGUMENTS = 64  # bytes of each function's arguments


class DriverError(Exception):
    """One sentence."""


class Driver:
    """The functions by process id. Raises OSError or AttributeError where there are none."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        for name in ("Lock", "Checkpoint", "Restore", "Unlock", "GetState"):
            getattr(self._library, f"cuCheckpointProcess{name}")

    def open(self) -> None:
        self._check("initialize", self._library.cuInit(0))

    def state(self, pid: int) -> int | None:
        """None if it has nothing on a device."""
        found = ctypes.c_int(-1)
        code = self._library.cuCheckpointProcessGetState(pid, ctypes.byref(found))
        return found.value if code == SUCCESS else None

    def lock(self, pid: int) -> None:
        arguments = (ctypes.c_uint32 * (_ARGUMENTS // 4))(LOCK_WITHIN_MS)
        code = self._library.cuCheckpointProcessLock(pid, ctypes.byref(arguments))
        self._check(f"lock process {pid}", code)

    def checkpoint(self, pid: int) -> None:
        code = self._library.cuCheckpointProcessCheckpoint(pid, None)
        self._check(f"move the memory of process {pid}", code)

    def restore(self, pid: int) -> None:
        code = self._library.cuCheckpointProcessRestore(pid, None)
        self._check(f"bring back the memory of process {pid}", code)

    def unlock(self, pid: int) -> None:
        self._check(f"unlock process {pid}", self._library.cuCheckpointProcessUnlock(pid, None))

    def _check(self, what: str, code: int) -> None:
        if code == SUCCESS:
            return
        name = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(name))
        said = (name.value or b"").decode() or f"error {code}"
        raise DriverError(f"the NVIDIA driver could not {what}: {said}")


def is_there() -> bool:
    """Whether this machine's driver has the functions. It loads the library."""
    try:
        Driver()
    except (OSError, AttributeError):
        return False
    return True


def suspend(driver: Driver, pids: Iterable[int]) -> None:
    """All of these, or none. Raises DriverError."""
    on_devices = [pid for pid in pids if driver.state(pid) is not None]
    try:
        for pid in on_devices:
            if driver.state(pid) == RUNS:
                driver.lock(pid)
        for pid in on_devices:
            if driver.state(pid) == LOCKED:
                driver.checkpoint(pid)
    except DriverError:
        with suppress(DriverError):
            resume(driver, on_devices)
        raise


def resume(driver: Driver, pids: Iterable[int]) -> None:
    """Each as far as it goes; raises the first DriverError."""
    wrong: DriverError | None = None
    pids = list(pids)
    for done, step in ((CHECKPOINTED, driver.restore), (LOCKED, driver.unlock)):
        for pid in pids:
            wrong = _tried(driver, pid, done, step) or wrong
    if wrong is not None:
        raise wrong


def bring_back(driver: Driver, pids: Iterable[int]) -> None:
    """Resume a job that is suspended, of which these are the processes; raises DriverError.

    All are asked about: a process that is suspended has its devices closed.
    """
    known = [pid for pid in pids if driver.state(pid) is not None]
    if not known:
        raise DriverError("the NVIDIA driver knows none of the job's processes")
    resume(driver, known)


def _tried(driver: Driver, pid: int, state: int, step: Callable[[int], None]) -> DriverError | None:
    if driver.state(pid) == state:
        try:
            step(pid)
        except DriverError as error:
            return error
    return None


def run(pids: Iterable[int], said: int, *, resumes: bool) -> NoReturn:
    """In a new process: do it, say how it went, and end."""
    answer: bytes = b"it failed"
    try:
        signal.set_wakeup_fd(-1)
        prctl(PR_SET_PDEATHSIG, KILL, 0, 0, 0)
        driver = Driver()
        driver.open()
        if resumes:
            bring_back(driver, pids)
        else:
            suspend(driver, _with_devices(pids))
        answer = DONE
    except BaseException as error:  # whatever it is, it is said
        answer = str(error).encode() or repr(error).encode()
    finally:
        with suppress(BaseException):
            os.write(said, answer)
        os._exit(0)


def _with_devices(pids: Iterable[int]) -> list[int]:
    """Those that have opened a device of NVIDIA's."""
    return [pid for pid in pids if any(_opened(pid))]


def _opened(pid: int) -> Iterable[Any]:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208
            with suppress(OSError):
                path = os.readlink(f"{folder}/{name}")  # noqa: PTH115
                yield path.startswith("/dev/nvidia")
