"""What a supervisor reads and writes: its lock, its status, its children, the machine's counters.

Part of the supervisor: it imports the standard library alone.
"""

import fcntl
import json
import os
import select
from contextlib import suppress

from treadle.engines.node.plain_files import count_in, read, write_all
from treadle.engines.node.processes import all_pids, parent_of

GIB = 2**30
STATUS_BYTES = 4096  # reserved for the last status before the disk can be full

# -- files ----------------------------------------------------------------------------------------


def take_lock(folder: str) -> int | None:
    """The lock of the folder until this process ends, or None if another has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(f"{folder}/supervisor.json", flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


class OwnFiles:
    """The two files that a supervisor keeps open in the folder of its attempt.

    `supervisor.json` is its lock, and has a line about the supervisor and one about the ranks once
    they run. `status.json` has the room for how the attempt ends, and says nothing until then.
    """

    def __init__(self, folder: str, lock: int) -> None:
        self._lock = lock
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._status = os.open(f"{folder}/status.json", flags, 0o600)
        for file in (self._status, lock):  # One before this may have been killed here, or left.
            os.ftruncate(file, 0)
        os.posix_fallocate(self._status, 0, STATUS_BYTES)

    def add_line(self, line: str) -> None:
        """To `supervisor.json`; one without its end does not count."""
        os.write(self._lock, f"{line}\n".encode())

    def write_status(self, status: str, *, sync: bool) -> None:
        """In one page, which a kill does not cut in two; readers wait for the lock."""
        write_all(self._status, status.encode().ljust(STATUS_BYTES))
        if sync:
            os.fsync(self._status)


def has_ended(folder: str, nonce: str, action: int) -> bool:
    """Whether this very attempt has ended; a status of another one says nothing about it.

    A node that left an attempt over several may join it again, by a later order.
    """
    try:
        status = json.loads(read(f"{folder}/status.json"))
        own = status.get("state") == "ended" and status.get("nonce", "") == nonce
        return bool(own and status.get("action", action) >= action)
    except (FileNotFoundError, ValueError, AttributeError):
        return False


# -- the agent ------------------------------------------------------------------------------------


def tell(report: int, message: str) -> None:
    """Say something to the agent; a JSON object."""
    with suppress(OSError):
        os.write(report, f"{message}\n".encode())


def is_listened_to(report: int) -> bool:
    poll = select.poll()
    poll.register(report, 0)
    return not poll.poll(0)


# -- processes ------------------------------------------------------------------------------------


def children_of_this() -> list[int] | None:
    """Our children, zombies among them; None if they cannot be listed just now."""
    try:
        return [int(pid) for pid in read("/proc/thread-self/children").split()]
    except FileNotFoundError:  # Of kernels without that file.
        with suppress(OSError):
            return [pid for pid in all_pids() if parent_of(pid) == os.getpid()]
    except OSError:
        pass
    return None


def oom_kills() -> int:
    """How many processes of this machine the kernel has ever killed for memory."""
    return count_in("/proc/vmstat", b"oom_kill ")


def over_its_memory(limit: int, peak: int | None) -> str:
    """That an attempt used more than its limit, in bytes, for people."""
    most = "" if peak is None else f" (peak {_gib(peak)})"
    return f"it used more than its --memory of {_gib(limit)}{most}"


def _gib(count: int) -> str:
    return f"{count / 2**20:.3g} MiB" if count < GIB else f"{count / GIB:.3g} GiB"
