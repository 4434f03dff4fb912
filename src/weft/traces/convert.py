"""Write a workload as Weft's own CSV, all of it or nothing."""

import os
from gzip import GzipFile
from pathlib import Path
from typing import IO

from weft.core.errors import InvalidInputError
from weft.traces.own import text_lines
from weft.traces.workload import Workload


def write(workload: Workload, path: Path, *, force: bool = False) -> None:
    """Write to the path, packed if its name ends in .gz; an existing file needs force.

    The file appears under its name only when it is complete: it is written beside it first.
    """
    if path.exists() and not path.is_file():
        raise InvalidInputError(f"{path} is a directory or a device; expected the name of a file")
    if path.exists() and not force:
        raise InvalidInputError(f"{path} already exists; use --force to replace it")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            _write_lines(workload, file, packed=path.suffix == ".gz")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except FileNotFoundError:
        raise InvalidInputError(f"{path.parent} does not exist; create it first") from None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def _write_lines(workload: Workload, file: IO[bytes], *, packed: bool) -> None:
    if not packed:
        file.writelines(line.encode() for line in text_lines(workload))
        return
    # No name and no time in the gzip header: the same workload is the same bytes.
    with GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
        stream.writelines(line.encode() for line in text_lines(workload))
