"""Sockets in the folder of a node, however long its path is: who may write there may connect."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BACKLOG = 128


def listening(folder: Path, name: str) -> socket.socket:
    """The socket of that name, in place of any before. Raises OSError."""
    made = socket.socket(socket.AF_UNIX)
    with within(folder) as short:
        draft = Path(f"{short}/{name}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        made.bind(str(draft))
        draft.chmod(0o600)  # Before it listens.
        made.listen(BACKLOG)
        draft.replace(f"{short}/{name}")
    return made


def connected(folder: Path, name: str, *, within_s: float) -> socket.socket:
    """Raises OSError if none listens."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(within_s)
    try:
        with within(folder) as short:
            made.connect(f"{short}/{name}")
    except OSError:
        made.close()
        raise
    return made


@contextmanager
def within(folder: Path) -> Iterator[str]:
    """A short path to the folder: that of a socket has 107 bytes."""
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)
