"""The lock on the folder of a node: two agents in it would stop each other's jobs.

Who has it is written in its file, because an agent may outlive its raylet: one whose process is
stopped, or waits for ever, does not notice that its raylet is dead, and Ray does not know it any
more. The next agent ends such a process, and takes over what it had as after a crash. It must be
certain which process that is: of this boot, in this pid namespace, started when the file says, of
our own user, and not the child of that parent any more which had started it.
"""

import asyncio
import fcntl
import logging
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from treadle.core.errors import EngineError
from treadle.engines.node import processes
from treadle.engines.node.processes import ProcessId

FILE = "agent.lock"
TRIES = 200  # in ten seconds
AGAIN_AFTER_S = 0.05
BYTES_MAX = 1000  # of what is written in it

logger = logging.getLogger("treadle")


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has the lock."""

    boot: str
    namespace: str  # in which its pid is counted
    pid: int
    start: int
    parent: int  # its raylet


async def locked(folder: Path, *, tries: int = TRIES) -> IO[bytes]:
    """The file, which holds the lock until it is closed: the agent before may be about to end.

    One whose raylet is dead is ended at half of the time. Raises EngineError if it is not free.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (folder / FILE).open("a+b")
    for number in range(tries):
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sign(file)
            return file
        if number == tries // 2:
            _end_orphan(file)
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


def _sign(file: IO[bytes]) -> None:
    me = os.getpid()
    own = Holder(
        boot=processes.boot_id(),
        namespace=_namespace(),
        pid=me,
        start=processes.start_of(me) or 0,
        parent=os.getppid(),
    )
    with suppress(OSError):  # The disk is full: it has the lock all the same.
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), msgspec.json.encode(own))


def _end_orphan(file: IO[bytes]) -> None:
    """Kill the process that has the lock, if nothing but its end can give it back."""
    file.seek(0)
    with suppress(msgspec.MsgspecError, OSError):
        holder = msgspec.json.decode(file.read(BYTES_MAX), type=Holder)
        if not _is_orphan(holder):
            return
        if processes.send(ProcessId(holder.pid, holder.start), signal.SIGKILL):
            logger.warning(
                "the agent with pid %s was killed: its raylet is dead, and it did not end",
                holder.pid,
            )


def _is_orphan(holder: Holder) -> bool:
    """Whether it is a process of ours here, and its parent has died before it."""
    if (holder.boot, holder.namespace) != (processes.boot_id(), _namespace()):
        return False
    if processes.start_of(holder.pid) != holder.start:
        return False
    mine = (processes.PROC / str(holder.pid)).stat().st_uid == os.geteuid()
    return mine and holder.pid != os.getpid() and processes.parent_of(holder.pid) != holder.parent


def _namespace() -> str:
    return str((processes.PROC / "self" / "ns" / "pid").readlink())
