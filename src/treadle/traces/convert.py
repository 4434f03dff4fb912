"""Write a workload as Treadle's own CSV, atomically."""

import os
from gzip import GzipFile
from pathlib import Path
from typing import IO

from treadle.core.errors import InvalidInputError
from treadle.files import writing
from treadle.traces.progress import Advance, counted, ignore
from treadle.traces.treadle_csv import text_lines
from treadle.traces.workload import Workload


def check_writable(path: Path, *, force: bool) -> None:
    """Refuse a path that cannot be written, before any work is done."""
    parent = path.parent
    try:
        if path.is_dir():
            raise InvalidInputError(f"cannot write {path}: it is a directory; name a file in it")
        if parent.exists() and not parent.is_dir():
            raise InvalidInputError(f"cannot write {path}: {parent} is not a directory")
        if not parent.exists():
            raise InvalidInputError(f"cannot write {path}: directory {parent} {_missing(parent)}")
        if path.is_file() and not force:
            raise InvalidInputError(f"{path} already exists; use --force to replace it")
        if path.exists() and not os.access(path, os.W_OK):
            raise InvalidInputError(f"cannot write {path}: the file is read-only")
        # A device or a pipe is written in place and needs no room beside it.
        if not _is_special(path) and not os.access(parent, os.W_OK | os.X_OK):
            raise InvalidInputError(f"cannot write {path}: no permission to write in {parent}")
    except OSError as error:  # A name that no file system takes.
        raise InvalidInputError(f"cannot write {path}: {_why(error)}") from None


def write(
    workload: Workload, path: Path, *, force: bool = False, advance: Advance = ignore
) -> None:
    """Write to the path, compressed if its name ends in .gz; an existing file needs force.

    A temporary file beside it is renamed when it is complete.
    """
    check_writable(path, force=force)
    try:
        with writing(path, sync=True) as file:
            _write_lines(workload, file, packed=path.suffix == ".gz", advance=advance)
    except FileNotFoundError:  # The directory exists but takes no files: /proc, say.
        raise InvalidInputError(f"cannot write {path}: {path.parent} takes no new files") from None
    except OSError as error:
        raise InvalidInputError(f"cannot write {path}: {_why(error)}") from None


def _write_lines(workload: Workload, file: IO[bytes], *, packed: bool, advance: Advance) -> None:
    lines = (line.encode() for line in counted(text_lines(workload), advance))
    if not packed:
        file.writelines(lines)
        return
    # No name and no time in the gzip header: the same workload is the same bytes.
    with GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
        stream.writelines(lines)


def _missing(directory: Path) -> str:
    """Why a directory is missing: one of its parents is a file, or it was not created."""
    for above in directory.parents:
        if above.exists():
            return "does not exist" if above.is_dir() else f"cannot exist, {above} is a file"
    return "does not exist"


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _why(error: OSError) -> str:
    return (error.strerror or "the system refused").lower()
