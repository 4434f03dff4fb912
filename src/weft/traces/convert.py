"""Write a workload as Weft's own CSV, all of it or nothing."""

import gzip
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from weft.core.errors import InvalidInputError
from weft.traces.own import text_lines
from weft.traces.workload import Workload


def write(workload: Workload, path: Path, *, force: bool = False) -> None:
    """Write to the path, packed if its name ends in .gz; an existing file needs force.

    The file appears under its name only when it is complete: it is written beside it first.
    """
    if path.is_dir():
        raise InvalidInputError(f"{path} is a directory; expected the name of a file")
    if path.exists() and not force:
        raise InvalidInputError(f"{path} already exists; use --force to replace it")
    try:
        with NamedTemporaryFile(
            "wb", dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False
        ) as file:
            unfinished = Path(file.name)
            try:
                _write_lines(workload, file, packed=path.suffix == ".gz")
                file.flush()
                os.fsync(file.fileno())
                unfinished.chmod(0o644)
                unfinished.replace(path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
    except FileNotFoundError:
        raise InvalidInputError(f"{path.parent} does not exist; create it first") from None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from None


def _write_lines(workload: Workload, file: IO[bytes], *, packed: bool) -> None:
    if not packed:
        file.writelines(line.encode() for line in text_lines(workload))
        return
    # No name and no time in the gzip header: the same workload is the same bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
        stream.writelines(line.encode() for line in text_lines(workload))
