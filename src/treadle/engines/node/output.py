"""The output of a rank as one stream of bytes, though the middle of a long one is gone.

The engine keeps the head of a rank's output and its newest pieces, named by where they begin
(engines/node/capture.py). Here they are read as one: an offset into what is gone goes on behind it.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from treadle.wire.problems import NotFoundError

PIECE_MAX = 1 << 20
_NAME = re.compile(r"rank-(\d+)(?:\.(\d+))?\.log", re.ASCII)


class Piece(NamedTuple):
    begins: int
    size: int
    path: Path


class Read(NamedTuple):
    offset: int  # of the first byte; later than asked for where that is gone
    data: bytes
    size: int  # where the stream ends now
    lost: int  # bytes between what was asked for and what is there


def pieces(folder: Path, rank: int) -> list[Piece]:
    """What there is of a rank's output, in order."""
    found: list[Piece] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = _NAME.fullmatch(entry.name)
                if name and int(name[1]) == rank and entry.is_file(follow_symlinks=False):
                    size = entry.stat(follow_symlinks=False).st_size
                    found.append(Piece(int(name[2] or 0), size, Path(entry.path)))
    except OSError:
        return []
    return sorted(found)


def ranks(folder: Path) -> list[int]:
    """The ranks that wrote something, or could have."""
    try:
        names = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except OSError:
        return []
    return sorted({int(name[1]) for name in names if name})


def read(folder: Path, rank: int, *, offset: int, limit: int) -> Read:
    """Bytes from an offset on, of one piece at most; below 0 it counts from the end."""
    there = pieces(folder, rank)
    if not there:
        if rank and rank not in ranks(folder):
            raise NotFoundError(f"there is no output of rank {rank}")
        return Read(max(0, offset), b"", 0, 0)
    end = there[-1].begins + there[-1].size
    if offset < 0:
        offset = max(0, end + offset)
    for piece in there:
        if offset < piece.begins + piece.size:
            start = max(offset, piece.begins)
            data = _bytes(piece.path, start - piece.begins, min(limit, PIECE_MAX))
            return Read(start, data, end, start - offset)
    return Read(min(offset, end), b"", end, 0)


def _bytes(path: Path, start: int, limit: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, limit, start)
    finally:
        os.close(descriptor)
