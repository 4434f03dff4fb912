"""Brings the folder from which a job was submitted to nodes that have no folder of that path.

What is copied: the files of the folder on the controller's machine, as they are when the job first
starts on a node; of a git repository those that git does not ignore. Left out are `.git`, caches,
virtual environments, links that lead out of the folder, and what is no file. A node keeps what it
was sent by the hash of its content and of the job's user, so that the members of an array are sent
one copy, and every job has a folder of its own there (agent_copies.py).
"""

import asyncio
import base64
import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar
from weakref import WeakValueDictionary

import msgspec

from treadle.core.errors import EngineError
from treadle.core.job import JobId
from treadle.core.launch import Launch
from treadle.core.wording import gib_text
from treadle.engines.agent.copies import copy_messages as messages
from treadle.engines.agent.copies.command_paths import files_run
from treadle.engines.agent.copies.incoming import digest
from treadle.engines.agent.copies.tree import (
    FILE,
    ChangedError,
    Entry,
    UncopyableError,
    listing,
    read,
)
from treadle.engines.fleet.copies.checkpoint_copies import StrandedError
from treadle.engines.fleet.copies.copier import Asked, Copy, Source, SupersededError, copy, part_of
from treadle.engines.node.checkpoint_folders import folder_name
from treadle.repository import unignored

LEFT_OUT = frozenset({".git", "__pycache__", ".venv", "venv", "node_modules"})
HASHED_AT_ONCE = 1 << 20  # bytes
AGAIN_AFTER_S = (1.0, 2.0, 4.0, 8.0, 15.0)  # if a file has changed

Answer = TypeVar("Answer")


class Code(NamedTuple):
    """What is in a folder."""

    name: str  # the hash of its content and of the user: none gets what another had sent
    entries: tuple[Entry, ...]

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.entries)


def code_in(folder: Path, uid: int | None, bytes_max: float) -> Code:
    """What is copied of a folder. Raises UncopyableError, or ChangedError.

    uid: of the job, if it is another user's. bytes_max: more is not read; the sum of the entries
    says how much it is.
    """
    if os.geteuid() == 0 and uid:
        # The user could put links in place of folders between a look and the next.
        raise UncopyableError("a daemon that runs as root copies no folders of users")
    wanted = unignored(folder)
    kept = _with_folders(wanted) if wanted else None  # Or git ignores the folder itself.

    def leave(path: str, is_folder: bool) -> bool:
        name = path.rpartition("/")[2]
        if name in LEFT_OUT or (is_folder and (folder / path / "pyvenv.cfg").exists()):
            return True
        return kept is not None and path not in kept

    entries = listing(folder, leave=leave, strict=False).entries
    found = Code("", entries)
    if found.bytes > bytes_max:
        return found
    total = hashlib.sha256(b"of user %d " % (os.geteuid() if uid is None else uid))
    for entry in entries:
        total.update(msgspec.json.encode((entry.path, entry.kind, entry.mode, entry.link)))
        for offset in range(0, entry.size if entry.kind == FILE else 0, HASHED_AT_ONCE):
            total.update(read(folder, entry, offset, HASHED_AT_ONCE))
    return Code(total.hexdigest()[:32], entries)


class CodeFolders:
    """The controller's side."""

    def __init__(self, clients: Mapping[str, Asked], limit_gib: float) -> None:
        self._clients, self._limit_gib = clients, limit_gib
        # Of each node and content: members of an array are sent the same at the same time.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self.doing: dict[JobId, str] = {}  # what is copied now, in one sentence for people

    async def provide(
        self, launch: Launch, nodes: Sequence[str], wanted: Callable[[], bool]
    ) -> dict[str, str]:
        """Have all these nodes see the job's folder and what it runs.

        The folders that the job runs in, by node, in place of its own. Raises StrandedError,
        SupersededError or EngineError.
        """
        sights = {node: await self._sight(launch, node) for node in nodes}
        given = {node: sight.own for node, sight in sights.items() if sight.own}
        blind = [node for node, sight in sights.items() if not sight.there]
        try:
            given |= await self._send_patiently(launch, blind, wanted)
        finally:
            self.doing.pop(launch.job, None)
        sights |= {node: await self._sight(launch, node) for node in blind}
        for node, sight in sights.items():
            for path in sight.missing:
                await self._miss(launch, node, path)
        return given

    async def _send_patiently(
        self, launch: Launch, blind: Sequence[str], wanted: Callable[[], bool]
    ) -> dict[str, str]:
        """Again and again while a file changes: something may be written there all the time."""
        for pause_s in AGAIN_AFTER_S:
            try:
                return await self._send(launch, blind, wanted)
            except ChangedError as error:
                why = f"its folder {launch.workdir} changes while it is copied ({error})"
            self.doing[launch.job] = f"{why}; that is tried again"
            await asyncio.sleep(pause_s)
            if not wanted():
                raise SupersededError
        raise EngineError(why, retryable=True)

    async def _send(
        self, launch: Launch, blind: Sequence[str], wanted: Callable[[], bool]
    ) -> dict[str, str]:
        folder, given = Path(launch.workdir), dict[str, str]()
        if not blind:
            return given
        if not await asyncio.to_thread(os.path.isdir, folder):
            if not await self._seeing(launch):
                return given  # It is nowhere, and the launch says so.
            missing = f"is neither on node {blind[0]} nor on the machine of the daemon"
            await self._refuse(launch, f"{missing}, so that it cannot be copied")
        most = self._limit_gib * 2**30
        try:
            code = await asyncio.to_thread(code_in, folder, launch.uid, most)
        except ChangedError:
            raise
        except (EngineError, OSError) as error:
            await self._refuse(launch, f"cannot be copied to node {blind[0]}: {error}")
        if code.bytes > most:
            limit = gib_text(self._limit_gib)
            why = f"holds {gib_text(code.bytes / 2**30)}, and at most {limit} are copied"
            await self._refuse(launch, f"is not on node {blind[0]}; it {why}")
        for node in blind:
            if (target := self._clients.get(node)) is not None:
                what = Copy(
                    folder=messages.Folder(kind="code", name=code.name),
                    attempt=1,
                    wanted=wanted,
                    progress=partial(self._say, launch.job, node),
                )
                self.doing[launch.job] = f"its folder is about to be copied to node {node}"
                lock = self._locks.setdefault((node, code.name), asyncio.Lock())
                async with lock:
                    await copy(what, [Source(FolderHere(folder), code.entries)], target)
                    given[node] = await self._unpack(launch, code.name, target)
        return given

    def _say(self, job: JobId, node: str, done: int, of: int) -> None:
        self.doing[job] = f"its folder is being copied to node {node}: {part_of(done, of)}"

    async def _sight(self, launch: Launch, node: str) -> messages.Sight:
        client = self._clients.get(node)
        if client is None:
            return messages.Sight(there=True)  # It has left, which is noticed elsewhere.

        def asked(session: str) -> messages.SightAsked:
            return messages.SightAsked(
                session=session,
                path=launch.workdir,
                name=_name(launch),
                files=files_run(launch.command, launch.workdir),
            )

        return await client.within_session("copy-sees", asked, messages.Sight)

    async def _unpack(self, launch: Launch, code: str, target: Asked) -> str:
        """The folder of its own that the job has there then."""

        def asked(session: str) -> messages.Unpack:
            return messages.Unpack(
                session=session,
                folder=messages.Folder(kind="code", name=code),
                name=_name(launch),
                uid=launch.uid,
                gid=launch.gid,
            )

        return (await target.within_session("copy-unpack", asked, messages.Done)).path

    async def _refuse(self, launch: Launch, why: str) -> NoReturn:
        raise StrandedError(f"its folder {launch.workdir} {why}", await self._seeing(launch))

    async def _seeing(self, launch: Launch) -> list[str]:
        """The nodes that have its folder, or gave it one."""
        sights = {node: await self._sight(launch, node) for node in list(self._clients)}
        return [node for node, sight in sights.items() if sight.there]

    async def _miss(self, launch: Launch, node: str, path: str) -> None:
        """A file that it runs is not there; if it is nowhere, the launch says so."""
        sights = {each: await self._sight(launch, each) for each in list(self._clients)}
        having = [each for each, sight in sights.items() if path not in sight.missing]
        if not having and not await asyncio.to_thread(os.path.exists, path):
            return
        why = f"and only its folder {launch.workdir} is copied"
        if Path(path).is_relative_to(launch.workdir):
            why = "though its folder is there: copies leave out what git ignores, and environments"
        if not having:
            why += "; it is on the daemon's machine alone"
        raise StrandedError(f"it runs {path}, which is not on node {node}, {why}", having)


class FolderHere:
    """A folder of this machine, as a source of copies (copier.Asked)."""

    def __init__(self, folder: Path) -> None:
        self.name = "of the controller"
        self.shared: bool | None = None
        self._folder = folder

    async def ready(self) -> None:
        pass

    async def within_session(
        self, verb: str, make: Callable[[str], object], kind: type[Answer]
    ) -> Answer:
        asked = make("")
        assert verb == "copy-read"
        assert isinstance(asked, messages.ReadAsked)
        data = await asyncio.to_thread(read, self._folder, asked.entry, asked.offset, asked.length)
        text = msgspec.Raw(b'"' + base64.b64encode(data) + b'"')
        piece = messages.PassedPiece(data=text, digest=digest(data))
        assert isinstance(piece, kind)
        return piece


def _name(launch: Launch) -> str:
    return folder_name(launch.job, launch.submission)


def _with_folders(paths: Collection[str]) -> set[str]:
    """These paths, and all folders above them."""
    found = set(paths)
    for path in paths:
        while path := path.rpartition("/")[0]:
            found.add(path)
    return found
