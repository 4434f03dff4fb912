"""The lock on the folder of a node: two agents in it would stop each other's jobs."""

import asyncio
import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from treadle.core.errors import EngineError

FILE = "agent.lock"
TRIES = 200  # in ten seconds
AGAIN_AFTER_S = 0.05

logger = logging.getLogger("treadle")


async def locked(folder: Path, *, tries: int = TRIES) -> IO[bytes]:
    """The file, which holds the lock until it is closed: the agent before may be about to end.

    Raises EngineError if it is not free.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (folder / FILE).open("ab")
    for _ in range(tries):
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        await asyncio.sleep(AGAIN_AFTER_S)
    file.close()
    raise EngineError(f"another agent works in {folder}", retryable=True)


def open_passages(folder: Path) -> None:
    """Have the folder and the two above it: nodes, and the state folder.

    If this is root's, users of jobs may pass through to their checkpoints, and list nothing, as on
    the machine of the daemon; whatever the umask is, and though the folder was a closed one.
    """
    for passage in (folder.parent.parent, folder.parent, folder):
        passage.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = passage.stat()
        if os.geteuid() or found.st_mode & 0o011 == 0o011:
            continue
        if found.st_uid == 0:
            passage.chmod(found.st_mode & 0o777 | 0o711)
        else:
            logger.warning("users of jobs cannot pass through %s, which is not root's", passage)
