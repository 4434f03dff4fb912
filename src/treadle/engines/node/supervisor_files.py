"""What a supervisor reads and writes: its lock, its status, its children, the machine's counters.

Part of the supervisor: it imports the standard library alone.
"""

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path

from treadle.engines.node.processes import all_pids, parent_of
from treadle.engines.node.scope import count_in

SPARE_BYTES = 4096  # reserved for the last status before the disk can be full

# -- files ----------------------------------------------------------------------------------------


def write_status(folder: Path, through: str, data: bytes, *, sync: bool) -> None:
    """Replace the status through another file, padded to the reserved size."""
    file = os.open(folder / through, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        # Padded, not truncated: freeing a block took 3 ms on a busy disk.
        write_all(file, data.ljust(SPARE_BYTES))
        if sync:
            os.fsync(file)
    finally:
        os.close(file)
    (folder / through).rename(folder / "status.json")


def write_all(file: int, data: bytes) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], done)


def take_lock(folder: Path) -> int | None:
    """The lock of the folder until this process ends, or None if another has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(folder / "supervisor.json", flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def has_ended(folder: Path, nonce: str) -> bool:
    """Whether this very attempt has ended; a status of another one says nothing about it."""
    try:
        status = json.loads((folder / "status.json").read_bytes())
        return bool(status.get("state") == "ended" and status.get("nonce", "") == nonce)
    except (FileNotFoundError, ValueError, AttributeError):
        return False


# -- processes ------------------------------------------------------------------------------------


def children_of_this() -> list[int] | None:
    """Our children, zombies among them; None if they cannot be listed just now."""
    try:
        return [int(pid) for pid in Path("/proc/thread-self/children").read_bytes().split()]
    except FileNotFoundError:  # Of kernels without that file.
        with suppress(OSError):
            return [pid for pid in all_pids() if parent_of(pid) == os.getpid()]
    except OSError:
        pass
    return None


def oom_kills() -> int:
    """How many processes of this machine the kernel has ever killed for memory."""
    return count_in(Path("/proc/vmstat"), b"oom_kill ")
