"""The end of a log file, whatever the file contains.

A log may be a terabyte, a single line, binary, or not a log at all: only its last bytes are read,
and the result has a bounded number of lines of bounded length.
"""

import os
import stat
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.failures.log_lines import clean

LIMIT_BYTES = 256 << 10


def tail(path: Path | str) -> list[str]:
    """The last lines within the limit; a first line that the limit cuts is dropped."""
    try:
        # A pipe without a writer must not block: it is opened without waiting and refused below.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(f"cannot read {_shown(path)}: {reason}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInputError(f"cannot read {_shown(path)}: it is no regular file")
        start = max(0, status.st_size - LIMIT_BYTES)
        # One more byte shows whether the first line is complete.
        data = _read(descriptor, max(0, start - 1), LIMIT_BYTES + (start > 0))
    except OSError as error:
        raise InvalidInputError(f"cannot read {_shown(path)}: {error.strerror}") from None
    finally:
        os.close(descriptor)
    return clean(_whole_lines(data, cut=start > 0).decode("utf-8", errors="replace"))


def _read(descriptor: int, start: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0:
        part = os.pread(descriptor, size, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
        size -= len(part)
    return b"".join(parts)


def _whole_lines(data: bytes, *, cut: bool) -> bytes:
    """Drop the first line if it is cut, unless it is the only one."""
    if not cut:
        return data
    first = data.find(b"\n")
    return data[1:] if first < 0 or first == len(data) - 1 else data[first + 1 :]


def _shown(path: Path | str) -> str:
    """A name that is safe to print."""
    name = os.fspath(path)
    return name if name.isprintable() else ascii(name)
