"""Whether a machine has what a launch needs: memory, descriptors, processes, room on the disk.

A launch that fails for want of these says nothing about its job. Part of the supervisor: it imports
the standard library alone.
"""

import errno
import mmap
import os
from contextlib import suppress
from pathlib import Path

MEMORY_BYTES = 64 << 20  # address space for the first moments of a program; it is not touched
DISK_BYTES = 256 << 10  # an attempt's first files are a twentieth of that
DESCRIPTORS = 24  # a launch takes six

# Errors that a machine, a file system or a user's limits cause, and no command by itself.
MACHINE_ERRORS = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EROFS,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)


def errno_of(error: BaseException) -> int | None:
    """The number of an error of the machine; None for any other exception."""
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    return error.errno if isinstance(error, OSError) else None


def sentence(error: BaseException) -> str:
    """An error of the machine for people: "No space left on device (ENOSPC): /state/jobs"."""
    number = errno_of(error)
    if number is None:
        return str(error) or repr(error)
    words = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
    path = getattr(error, "filename", None)
    return f"{words}: {path}" if isinstance(path, str) else words


def check_memory() -> None:
    """Raise OSError if a program would find no memory to start in."""
    mmap.mmap(-1, MEMORY_BYTES).close()


def check_descriptors() -> None:
    """Raise OSError if a few more files cannot be opened."""
    opened: list[int] = []
    try:
        opened.extend(os.dup(0) for _ in range(DESCRIPTORS))
    finally:
        for file in opened:
            os.close(file)


def check_processes() -> None:
    """Raise OSError if no process can be forked."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    with suppress(ChildProcessError):  # Where the kernel reaps by itself.
        os.waitpid(pid, 0)


def check_disk(root: Path) -> None:
    """Raise OSError if files and folders cannot be made where attempts have theirs."""
    for name in ("jobs", "live", "checkpoints"):
        folder = root / name
        if name == "checkpoints":
            folder.mkdir(mode=0o700, exist_ok=True)
        trial = folder / ".probe"
        with suppress(FileExistsError):  # A crash left it.
            trial.mkdir(mode=0o700)
        trial.rmdir()
    path = root / ".probe"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        left = DISK_BYTES
        while left:
            left -= os.write(file, bytes(left))
        os.fsync(file)
    except OSError as error:  # Of an open file, the error does not say where it is.
        raise OSError(error.errno, error.strerror, str(root)) from None
    finally:
        os.close(file)
        with suppress(OSError):
            path.unlink()
