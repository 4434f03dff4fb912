"""Sockets in the folder of a node, however long its path is: who may write there may connect."""

import os
import socket
from pathlib import Path

BACKLOG = 128


def listening(folder: Path, name: str) -> socket.socket:
    """The socket of that name, in place of any before. Raises OSError."""
    made, there = socket.socket(socket.AF_UNIX), opened(folder)
    draft = Path(within(there, f"{name}.{os.getpid()}"))
    draft.unlink(missing_ok=True)
    made.bind(str(draft))
    draft.chmod(0o600)  # Before it listens.
    made.listen(BACKLOG)
    draft.replace(within(there, name))
    os.close(there)
    return made


def connected(folder: Path, name: str, *, within_s: float) -> socket.socket:
    """Raises OSError if none listens."""
    made, there = socket.socket(socket.AF_UNIX), opened(folder)
    made.settimeout(within_s)
    try:
        made.connect(within(there, name))
    except OSError:
        made.close()
        raise
    finally:
        os.close(there)
    return made


def opened(folder: Path) -> int:
    """A descriptor of the folder. Raises OSError."""
    return os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def within(folder: int, name: str) -> str:
    """A short path to a file in that folder: that of a socket has 107 bytes."""
    return f"/proc/self/fd/{folder}/{name}"
