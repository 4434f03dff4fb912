"""Files that appear whole or not at all: written beside their place, then renamed.

A reader sees the old content or the new one, never a part. `obstacle` tells beforehand whether a
path can be written. Standard library only, so that every layer may use it.

`engines/node/supervisor.py` does not: its status goes through a file whose blocks were reserved
while the disk still had room, and a fresh draft could not be written to a full disk.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_NAME_MAX = 40  # characters of the file's name in that of its draft, which must fit 255 bytes


@contextmanager
def replacing(
    path: Path, *, mode: int = 0o666, sync: bool = False, draft: str = ""
) -> Iterator[BinaryIO]:
    """Open a draft that replaces `path` when the block ends, and is removed when it raises.

    mode: of the new file, less the umask.
    sync: content and name are on disk when the block has ended.
    draft: a fixed name for the draft, for files that only one process writes: the draft that a
    crash left behind is then replaced too. By default every draft has a name of its own.
    """
    beside = path.with_name(draft) if draft else _draft(path)
    if draft:
        beside.unlink(missing_ok=True)
    try:  # An interrupt may come as soon as the draft is there.
        with _open_new(beside, mode) as file:
            yield file
            if sync:
                _flush_file(file)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    if sync:
        flush(path.parent)


@contextmanager
def writing(path: Path, *, mode: int = 0o666, sync: bool = False) -> Iterator[BinaryIO]:
    """Open the output file that a user named: a device or a pipe is written in place."""
    if _is_special(path):
        with path.open("wb") as file:
            yield file
    else:
        with replacing(path, mode=mode, sync=sync) as file:
            yield file


def replace(path: Path, content: bytes, *, mode: int = 0o666, sync: bool = False) -> None:
    """Give a file this content, or make it."""
    with replacing(path, mode=mode, sync=sync) as file:
        file.write(content)


def create(path: Path, content: bytes, *, mode: int = 0o666) -> bool:
    """Make a file that is on disk when this returns; False if the name is taken already."""
    beside = _draft(path)
    try:
        with _open_new(beside, mode) as file:
            file.write(content)
            _flush_file(file)
        try:
            # Unlike a rename, a link never replaces what another process made meanwhile.
            os.link(beside, path, follow_symlinks=False)
        except FileExistsError:
            return False
    finally:
        with suppress(OSError):
            beside.unlink()
    flush(path.parent)
    return True


def obstacle(path: Path) -> str:
    """Why a file cannot be written there, as the end of a sentence; empty if it seems possible."""
    parent = path.parent
    try:
        if path.is_dir():
            return "it is a directory; name a file in it"
        if not parent.exists():
            return f"directory {parent} {_missing(parent)}"
        if not parent.is_dir():
            return f"{parent} is not a directory"
        if path.exists() and not os.access(path, os.W_OK):
            return "the file is read-only"
        # A device or a pipe is written in place and needs no room beside it.
        if not _is_special(path) and not os.access(parent, os.W_OK | os.X_OK):
            return f"no permission to write in {parent}"
    except OSError as error:  # A name that no file system takes.
        return why_refused(error)
    return ""


def is_folder(path: Path) -> bool:
    """Whether a folder is there; raises OSError if that cannot be found out.

    `Path.is_dir` answers "no" to some errors, and which depends on the version of Python.
    """
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def why_refused(error: OSError) -> str:
    """The system's own words, as the end of a sentence."""
    return (error.strerror or "the system refused").lower()


def flush(folder: Path) -> None:
    """Bring the folder's names to the disk: without it a new name may be lost in a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _missing(directory: Path) -> str:
    """Why a directory is missing: one of its parents is a file, or it was not created."""
    for above in directory.parents:
        if above.exists():
            return "does not exist" if above.is_dir() else f"cannot exist, {above} is a file"
    return "does not exist"


def _draft(path: Path) -> Path:
    """A name of its own beside the path."""
    return path.with_name(f".{path.name[:_NAME_MAX]}.{os.urandom(8).hex()}.partial")


def _open_new(path: Path, mode: int) -> BinaryIO:
    """Exclusive, so that no link that another user planted there is followed."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")


def _flush_file(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
