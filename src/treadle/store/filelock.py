"""A lock file that one process holds; the kernel releases it when that process dies.

The file stays when the lock is released: removing it would let two processes lock two files of the
same name. It contains the holder's process id and host, for the error message of the next process.

Not the package filelock: it does not record its holder (and older releases emptied the file
on every try), and where a file system has no flock it falls back to a lock that a crash leaves
behind. Its acquire and release would replace six of the lines below.
"""

import fcntl
import os
import socket
from pathlib import Path

from treadle.store.deadline import Deadline
from treadle.store.errors import StoreError

HOLDER_BYTES_MAX = 300


class FileLock:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def take(self, name: str, deadline: Deadline) -> None:
        """Lock, or raise a StoreError that names the process which holds the store."""
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
            os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
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
                    raise in_use(name, _holder(descriptor)) from error
            else:
                return


def in_use(name: str, holder: str) -> StoreError:
    by = holder or "another process"
    return StoreError(
        f"the store {name} is in use by {by}; stop it (treadle down) or name another store",
        retryable=False,
    )


def _holder(descriptor: int) -> str:
    words = os.pread(descriptor, HOLDER_BYTES_MAX, 0).decode(errors="replace").split()
    if len(words) != 2 or not words[0].isascii() or not words[0].isdigit():
        return ""
    here = words[1] == socket.gethostname()
    return f"process {words[0]}" if here else f"process {words[0]} on {words[1]}"
