"""Small files by plain system calls, for supervisors.

A supervisor is forked, and the kernel copies each page of memory that it touches. There is one for
each attempt, so what it touches is most of what a short job costs: pathlib, io and shutil are 200
pages, which take longer than the fork. Here and in the files that a supervisor runs before its job
trains, a path is a text.

Part of the supervisor: it imports the standard library alone.
"""

import json
import os
from collections.abc import Set
from contextlib import suppress
from math import inf
from typing import Any

READ_BYTES = 1 << 16


def read(path: str) -> bytes:
    """All of a file."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_open(file)
    finally:
        os.close(file)


def read_open(file: int, most: float = inf) -> bytes:
    """All of it, or no more than about so many bytes."""
    data = piece = os.pread(file, READ_BYTES, 0)
    while piece and len(data) < most:
        piece = os.pread(file, READ_BYTES, len(data))
        data += piece
    return data


def read_document(path: str, keys: Set[str] = frozenset()) -> dict[str, Any] | None:
    """What a file says in JSON; None if it cannot be read, or says nothing of one of these."""
    with suppress(OSError, ValueError):
        found = json.loads(read(path))
        if isinstance(found, dict) and found.keys() >= keys:
            return found
    return None


def write(path: str, text: str) -> None:
    """Write to a file of the kernel's, in one piece."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def put(path: str, data: bytes) -> None:
    """Replace a file in one piece."""
    through = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(through, flags, 0o600)
    try:
        write_all(file, data)
    finally:
        os.close(file)
    os.rename(through, path)


def write_all(file: int, data: bytes, at: int = 0) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], at + done)


def count_in(path: str, name: bytes) -> int:
    """The number on the line of a file that begins so; 0 if there is none."""
    try:
        _, found, rest = (b"\n" + read(path)).partition(b"\n" + name)
        return int(rest.split(b"\n", 1)[0]) if found else 0
    except (OSError, ValueError):
        return 0
