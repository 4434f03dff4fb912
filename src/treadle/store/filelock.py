"""A lock file that one process holds; the kernel releases it when that process dies.

The file stays when the lock is released: removing it would let two processes lock two files of the
same name. It contains the holder's process id and host, and what it says about itself, for the
error message of the next process.

It is flock: NFS and other network file systems may not pass it on to other machines. What it guards
must be on a local disk, or be used from one machine only.

Not the package filelock: it does not record its holder (and older releases emptied the file
on every try), and where a file system has no flock it falls back to a lock that a crash leaves
behind. Its acquire and release would replace six of the lines below.
"""

import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from treadle.core.errors import TreadleError
from treadle.store.deadline import Deadline
from treadle.store.errors import StoreError

HOLDER_BYTES_MAX = 1000


class Holder(NamedTuple):
    """Who holds a lock, as it wrote itself; the process is empty if that cannot be read."""

    process: str = ""  # "process 12", or "process 12 on HOST"
    about: str = ""


def in_use(name: str, holder: Holder) -> TreadleError:
    by = holder.process or "another process"
    return StoreError(
        f"the store {name} is in use by {by}; stop it (treadle down) or name another store",
        retryable=False,
    )


class FileLock:
    def __init__(
        self,
        path: Path,
        refusal: Callable[[str, Holder], TreadleError] = in_use,
        *,
        about: str = "",
    ) -> None:
        """refusal: the error if another process holds it. about: what others are told of us."""
        self._path = path
        self._refusal = refusal
        self._about = about
        self._descriptor = -1

    def take(self, name: str, deadline: Deadline) -> None:
        """Lock, or raise an error that names the process which holds it."""
        # Python's descriptors are closed on exec, so jobs do not inherit the lock.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise StoreError(
                f"cannot create the lock {self._path}: {error.strerror}", retryable=False
            ) from error
        try:
            self._lock(descriptor, name, deadline)
            os.ftruncate(descriptor, 0)
            text = f"{os.getpid()} {socket.gethostname()} {self._about}".rstrip()
            os.pwrite(descriptor, f"{text}\n".encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise StoreError(
                f"cannot lock {self._path}: {error.strerror}", retryable=True
            ) from error
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _lock(self, descriptor: int, name: str, deadline: Deadline) -> None:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if not deadline.pause():
                    raise self._refusal(name, _holder(descriptor)) from error
            else:
                return


def holder_of(path: Path) -> Holder | None:
    """Who holds the lock now; None if it is free. Raises OSError if that cannot be seen."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor)
    finally:
        os.close(descriptor)
    return None


def _holder(descriptor: int) -> Holder:
    text = os.pread(descriptor, HOLDER_BYTES_MAX, 0).decode(errors="replace").strip()
    process, _, rest = text.partition(" ")
    host, _, about = rest.partition(" ")
    if not host or not process.isascii() or not process.isdigit():
        return Holder()
    here = host == socket.gethostname()
    return Holder(f"process {process}" if here else f"process {process} on {host}", about)
