"""Write a workload as Treadle's own CSV, atomically."""

from gzip import GzipFile
from pathlib import Path
from typing import IO

from treadle.core.errors import InvalidInputError
from treadle.files import obstacle, why_refused, writing
from treadle.traces.treadle_csv import text_lines
from treadle.traces.workload import Workload


def check_writable(path: Path, *, force: bool) -> None:
    """Refuse a path that cannot be written, before any work is done."""
    if found := obstacle(path):
        raise InvalidInputError(f"cannot write {path}: {found}")
    if path.is_file() and not force:
        raise InvalidInputError(f"{path} already exists; use --force to replace it")


def write(workload: Workload, path: Path, *, force: bool = False) -> None:
    """Write to the path, compressed if its name ends in .gz; an existing file needs force.

    A temporary file beside it is renamed when it is complete.
    """
    check_writable(path, force=force)
    try:
        with writing(path, sync=True) as file:
            _write_lines(workload, file, packed=path.suffix == ".gz")
    except FileNotFoundError:  # The directory exists but takes no files: /proc, say.
        raise InvalidInputError(f"cannot write {path}: {path.parent} takes no new files") from None
    except OSError as error:
        raise InvalidInputError(f"cannot write {path}: {why_refused(error)}") from None


def _write_lines(workload: Workload, file: IO[bytes], *, packed: bool) -> None:
    lines = (line.encode() for line in text_lines(workload))
    if not packed:
        file.writelines(lines)
        return
    # No name and no time in the gzip header: the same workload is the same bytes.
    with GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
        stream.writelines(lines)
