"""The code of jobs, for nodes that do not see the folder from which they were submitted.

It is packed at submission, kept in the state folder by its digest, and sent to a node before the
first job that needs it is launched there. Nothing else is sent, and nothing is sent back.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from treadle.code_archive import ArchiveError, packed
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.job import JobId
from treadle.core.launch import Launch
from treadle.core.machine import JobFiles
from treadle.core.wording import gib_text, listed
from treadle.engines.agent.messages import Archive, ArchiveTaken
from treadle.repository import User

PIECE_BYTES = 1 << 20
LOOK_WITHIN_S = 5.0  # for all nodes to say whether they see a folder
SUBMITTED_WITHIN_S = 3600.0
AT_ONCE = 2  # folders that are packed
NAMED_MAX = 3
WANTED_LOOK_S = 0.5

if TYPE_CHECKING:
    from treadle.engines.fleet.node_client import NodeClient


class UnseenError(EngineError):
    """A node does not see the job's folder; these do."""

    def __init__(self, why: str, seeing: Sequence[str]) -> None:
        super().__init__(why, retryable=False)
        self.seeing = tuple(seeing)


class SupersededError(EngineError):
    """The order does not stand any more."""

    def __init__(self) -> None:
        super().__init__("the order does not stand any more", retryable=False)


class Archives:
    """Those of one controller."""

    def __init__(self, folder: Path, clients: "Mapping[str, NodeClient]") -> None:
        """folder: where they are kept."""
        self._folder, self._clients = folder, clients
        self._turns = asyncio.Semaphore(AT_ONCE)
        # Of each node and archive: members of an array need the same at the same time.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self.doing: dict[JobId, str] = {}  # what is sent now, in one sentence for people

    async def pack(self, workdir: str, user: User | None) -> JobFiles:
        """Pack a folder that some node does not see. Raises InvalidInputError if none sees it."""
        said = await self._said(workdir)
        seeing = [name for name, sees in said.items() if sees]
        if len(seeing) == len(self._clients):
            return JobFiles()
        try:
            async with self._turns:
                name = await asyncio.to_thread(packed, workdir, self._folder, user=user)
        except (ArchiveError, OSError) as error:
            why = f"{workdir} cannot be sent to nodes that do not see it: {error}"
            if not seeing and None not in said.values():
                raise InvalidInputError(why) from None
            if not seeing:  # Not all nodes answer now; it is asked again when it is launched.
                return JobFiles()
            return JobFiles(note=f"it runs on {listed(seeing, NAMED_MAX)} alone: {why}")
        return JobFiles(archive=name)

    async def keep(self, names: Collection[str]) -> None:
        """Remove all others, but for those of jobs that are being submitted."""

        def remove() -> None:
            if not self._folder.is_dir():
                return
            os.utime(self._folder)  # By the clock of the file system.
            old = self._folder.stat().st_mtime - SUBMITTED_WITHIN_S
            for path in self._folder.iterdir():
                if path.name not in names and path.stat().st_mtime < old:
                    path.unlink(missing_ok=True)

        await asyncio.to_thread(remove)

    async def provide(
        self, launch: Launch, nodes: Sequence[str], wanted: Callable[[], bool]
    ) -> dict[str, str]:
        """Have all these nodes see the job's folder, or have its code.

        The folders in which it runs, by node, in place of its own. Raises UnseenError,
        SupersededError or EngineError.
        """
        found = dict[str, str]()
        try:
            for node in nodes:
                client = self._clients.get(node)
                own = await _while(wanted, self._sent(launch, node, client)) if client else ""
                found |= {node: own} if own else {}
        finally:
            self.doing.pop(launch.job, None)
        return found

    async def _sent(self, launch: Launch, node: str, client: "NodeClient") -> str:
        async with self._locks.setdefault((node, launch.archive or launch.job), asyncio.Lock()):
            return await self._send(launch, node, client)

    async def _send(self, launch: Launch, node: str, client: "NodeClient") -> str:
        """The folder that it has there in place of its own; empty: it sees its own."""
        size = await asyncio.to_thread(self._size, launch.archive) if launch.archive else 0
        answer = await self._ask(client, launch, size, 0, b"")
        while not (answer.sees or answer.folder):
            if not size:
                why = f"its folder {launch.workdir} is not on node {node}, and was not packed"
                raise UnseenError(why, await self._seeing(launch.workdir))
            part = f"{gib_text(answer.has / 2**30)} of {gib_text(size / 2**30)}"
            self.doing[launch.job] = f"its code is sent to node {node}: {part}"
            data = await asyncio.to_thread(self._piece, launch.archive, answer.has)
            answer = await self._ask(client, launch, size, answer.has, data)
        return answer.folder

    async def _ask(
        self, client: "NodeClient", launch: Launch, size: int, offset: int, data: bytes
    ) -> ArchiveTaken:
        def asked(session: str) -> Archive:
            return Archive(
                session=session,
                path=launch.workdir,
                digest=launch.archive if size else "",
                size=size,
                offset=offset,
                data=data,
                uid=launch.uid,
                gid=launch.gid,
            )

        return await client.within_session("archive", asked, ArchiveTaken)

    def _size(self, name: str) -> int:
        """0: there is none."""
        with suppress(FileNotFoundError):
            return (self._folder / name).stat().st_size
        return 0

    def _piece(self, name: str, offset: int) -> bytes:
        with (self._folder / name).open("rb") as file:
            file.seek(offset)
            return file.read(PIECE_BYTES)

    async def _seeing(self, workdir: str) -> list[str]:
        """The nodes that see a folder; one that does not say so does not."""
        return [name for name, sees in (await self._said(workdir)).items() if sees]

    async def _said(self, workdir: str) -> dict[str, bool | None]:
        """Whether nodes see a folder; None: it does not say."""

        def asked(session: str) -> Archive:
            return Archive(session=session, path=workdir)

        async def sees(client: "NodeClient") -> bool | None:
            with suppress(EngineError):
                found = client.within_session("archive", asked, ArchiveTaken, LOOK_WITHIN_S)
                return (await found).sees
            return None

        names = list(self._clients)
        seen = await asyncio.gather(*(sees(self._clients[name]) for name in names))
        return dict(zip(names, seen, strict=True))


async def _while(wanted: Callable[[], bool], work: Coroutine[None, None, str]) -> str:
    """The answer, unless the order is withdrawn before."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            if not wanted():
                raise SupersededError
            await asyncio.wait({task}, timeout=WANTED_LOOK_S)
        return await task
    finally:
        task.cancel()
