"""Reads the captured output of a rank as one stream of bytes.

The supervisor keeps the head of a rank's output and its newest pieces, in files named by their
first offset (output_capture.py). An offset into the part that was dropped continues behind it.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from treadle.core.errors import InvalidInputError
from treadle.core.machine import Output

PIECE_MAX = 1 << 20
_NAME = re.compile(r"rank-(\d+)(?:\.(\d+))?\.log", re.ASCII)


class Piece(NamedTuple):
    """One file of a rank's output."""

    begins: int
    size: int
    path: Path


def pieces(folder: Path, rank: int) -> list[Piece]:
    """The files of a rank's output, in order."""
    found: list[Piece] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = _NAME.fullmatch(entry.name)
                if name and int(name[1]) == rank and entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):  # The supervisor drops old pieces meanwhile.
                        size = entry.stat(follow_symlinks=False).st_size
                        found.append(Piece(int(name[2] or 0), size, Path(entry.path)))
    except FileNotFoundError:
        return []
    return sorted(found)


def ranks(folder: Path) -> list[int]:
    """The ranks that have an output file."""
    try:
        names = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted({int(name[1]) for name in names if name})


def read(folder: Path, rank: int, *, offset: int, limit: int, ranks_min: int = 1) -> Output:
    """Bytes from an offset on, up to the next gap; an offset below 0 counts from the end.

    ranks_min: ranks that exist, also if they have no file yet.
    """
    there = pieces(folder, rank)
    count = max(ranks(folder), default=-1) + 1
    if not there:
        if not 0 <= rank < ranks_min:
            raise InvalidInputError(f"there is no output of rank {rank}")
        return Output(max(0, offset), b"", 0, 0, count)
    end = there[-1].begins + there[-1].size
    if offset < 0:
        offset = max(0, end + offset)
    for place, piece in enumerate(there):
        if offset < piece.begins + piece.size:
            start = max(offset, piece.begins)
            data = _contiguous(there[place:], start, min(limit, PIECE_MAX))
            return Output(start, data, end, start - offset, count)
    return Output(min(offset, end), b"", end, 0, count)


def _contiguous(there: Sequence[Piece], start: int, limit: int) -> bytes:
    """Bytes from an offset in the first piece on, over all pieces that follow without a gap."""
    found = bytearray()
    for piece in there:
        here = start + len(found)
        if len(found) >= limit or not piece.begins <= here <= piece.begins + piece.size:
            break
        found += _bytes(piece.path, here - piece.begins, limit - len(found))
    return bytes(found)


def _bytes(path: Path, start: int, limit: int) -> bytes:
    """Bytes of a file; nothing if the supervisor has dropped it meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(descriptor, limit, start)
    finally:
        os.close(descriptor)
