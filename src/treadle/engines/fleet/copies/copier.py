"""Copies a folder from one or several nodes to another, piece by piece, through the controller.

Only one piece of a copy is on its way at a time, so that orders and facts pass between the pieces.
Every piece carries its digest, which the node that takes it checks. Files that the target has are
not sent. What was sent appears there only when all of it has come (incoming.py).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from treadle.core.errors import EngineError
from treadle.core.wording import gib_text, share
from treadle.engines.agent.copies import copy_messages as messages
from treadle.engines.agent.copies.tree import FOLDER, ChangedError, Entry

PIECE_BYTES = 1 << 20
WANTED_LOOK_S = 0.5  # between looks whether a copy is still wanted, while nothing is sent

Answer = TypeVar("Answer")


class Asked(Protocol):
    """What a copy needs of the client of a node (node_client.py)."""

    name: str
    shared: bool | None

    async def ready(self) -> None: ...
    async def within_session(
        self, verb: str, make: Callable[[str], object], kind: type[Answer]
    ) -> Answer: ...


class SupersededError(EngineError):
    """The copy is not wanted any more."""

    def __init__(self) -> None:
        super().__init__("the copy is not wanted any more", retryable=False)


class Source(NamedTuple):
    """A node, and what is taken from it."""

    client: Asked
    entries: tuple[Entry, ...]


Progress = Callable[[int, int], None]  # bytes that were sent, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """What is to be copied, and for whom."""

    folder: messages.Folder
    attempt: int = 0
    uid: int | None = None
    gid: int | None = None
    wanted: Callable[[], bool] = lambda: True
    progress: Progress = lambda done, total: None  # noqa: ARG005


async def until_ready(client: Asked, wanted: Callable[[], bool]) -> None:
    """Until somebody is in charge of the node. Raises SupersededError."""
    ready = asyncio.ensure_future(client.ready())
    try:
        while not ready.done():
            if not wanted():
                raise SupersededError
            await asyncio.wait({ready}, timeout=WANTED_LOOK_S)
    finally:
        ready.cancel()


async def listed(client: Asked, folder: messages.Folder) -> Source:
    asked = asking(messages.ListAsked, folder=folder)
    return Source(
        client, (await client.within_session("copy-list", asked, messages.Listed)).entries
    )


def merged(sources: Sequence[Source]) -> dict[str, tuple[Entry, Source]]:
    """What a copy of all of them holds.

    What an attempt has written itself goes before what it was given, and the first source before
    the others. Of the others it is only what the attempt has written there.
    """
    found: dict[str, tuple[Entry, Source]] = {}
    for source in sources:
        for entry in source.entries:
            if entry.own:
                found.setdefault(entry.path, (entry, source))
    for entry in sources[0].entries:
        found.setdefault(entry.path, (entry, sources[0]))
    return {path: found[path] for path in sorted(found) if _fits(path, found)}


def _fits(path: str, found: Mapping[str, tuple[Entry, Source]]) -> bool:
    """Whether what is above it is a folder: another node may have a file of that name."""
    while path := path.rpartition("/")[0]:
        if path in found and found[path][0].kind != FOLDER:
            return False
    return True


async def copy(what: Copy, sources: Sequence[Source], target: Asked, *, still: bool = False) -> str:
    """Make the folder of the target hold what the sources hold; its path there.

    still: if a source has changed meanwhile, nothing is taken over: ChangedError. That is for
    folders to which a job may be writing.
    """
    union = merged(sources)
    entries = tuple(entry for entry, _ in union.values())
    expect = asking(messages.Expect, folder=what.folder, entries=entries)
    missing = (await target.within_session("copy-expect", expect, messages.Expected)).missing
    total, done = sum(union[path][0].size for path in missing), 0
    for path in missing:
        entry, source = union[path]
        offset = 0
        while True:
            if not what.wanted():
                raise SupersededError
            what.progress(done, total)
            sent = await _pass_on(what, entry, offset, source.client, target)
            offset, done = offset + sent, done + sent
            if offset >= entry.size:
                break
    for source in sources if still else ():
        again = await listed(source.client, what.folder)
        if again.entries != source.entries:
            raise ChangedError(f"{what.folder.name} was changed while it was copied")
    if not what.wanted():
        raise SupersededError
    owner = {"uid": what.uid, "gid": what.gid}
    commit = asking(
        messages.Commit, folder=what.folder, entries=entries, attempt=what.attempt, **owner
    )
    return (await target.within_session("copy-commit", commit, messages.Done)).path


def part_of(done: int, total: int) -> str:
    """How far a copy is, for people."""
    return gib_text(total / 2**30) + (f", {share(done / total)} is done" if total else "")


async def _pass_on(what: Copy, entry: Entry, offset: int, source: Asked, target: Asked) -> int:
    """One piece; its bytes."""
    length = min(PIECE_BYTES, entry.size - offset)
    read = asking(messages.ReadAsked, folder=what.folder, entry=entry, offset=offset, length=length)
    piece = await source.within_session("copy-read", read, messages.PassedPiece)
    write = asking(
        messages.PassedWrite,
        folder=what.folder,
        entry=entry,
        offset=offset,
        data=piece.data,
        digest=piece.digest,
        uid=what.uid,
        gid=what.gid,
    )
    await target.within_session("copy-write", write, messages.Done)
    return length


def asking(kind: Callable[..., object], **fields: object) -> Callable[[str], object]:
    """Makes a message of this kind for the session in which it is sent."""
    return lambda session: kind(session=session, **fields)
