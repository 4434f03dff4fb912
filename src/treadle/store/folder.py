"""Names that last: after a file is made or renamed, its folder must reach the disk as well."""

import os
from pathlib import Path


def flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
