"""A short text in a file that is overwritten in place: a full disk does not keep it from changing.

A new file that takes the place of an old one needs a free block, and a disk that some job has
filled has none. Here the blocks are reserved when the file is made, while there is room.

The file has two slots, in different sectors, each with a number, a text and a checksum of both. A
write goes to the slot with the lower number, or to one that is not valid, and the text with the
highest number counts. So a write that is cut off by a crash, or that a reader sees halfway, spoils
a slot that does not count: the text before it is read. If both are spoiled, nothing is.

Part of the supervisor: it imports the standard library alone.
"""

import os
import zlib
from contextlib import suppress
from pathlib import Path

_SLOT_BYTES = 512
_FILE_BYTES = 2 * _SLOT_BYTES
TEXT_MAX = _SLOT_BYTES - 32  # bytes


def write(path: Path, text: str) -> None:
    """Only one process may write it at a time. Raises OSError."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _reserve(file)
        found = _slots(os.pread(file, _FILE_BYTES, 0))
        number = max((number for number, _ in found), default=0) + 1
        os.pwrite(file, _slot(number, text), number % 2 * _SLOT_BYTES)
    finally:
        os.close(file)


def make(path: Path) -> None:
    """A file with room for a text and none yet. Raises OSError."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _reserve(file)
    finally:
        os.close(file)


def read(path: Path) -> str | None:
    """The newest text; None if there is none that is whole. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = _slots(os.pread(file, _FILE_BYTES, 0))
    finally:
        os.close(file)
    return max(found)[1] if found else None


def _reserve(file: int) -> None:
    if os.fstat(file).st_size < _FILE_BYTES:
        os.posix_fallocate(file, 0, _FILE_BYTES)


def _slot(number: int, text: str) -> bytes:
    body = f"{number} {text}".encode()
    found = b"%08x %s\n" % (zlib.crc32(body), body)
    assert len(found) <= _SLOT_BYTES, "a text that is too long"
    return found.ljust(_SLOT_BYTES)


def _slots(data: bytes) -> list[tuple[int, str]]:
    """Numbers and texts of the slots that are whole."""
    found = []
    for slot in (data[:_SLOT_BYTES], data[_SLOT_BYTES:]):
        with suppress(ValueError):
            check, body = slot.rstrip(b" ").removesuffix(b"\n").split(b" ", 1)
            if int(check, 16) == zlib.crc32(body):
                number, text = body.decode().split(" ", 1)
                found.append((int(number), text))
    return found
