"""The agent's side of copies: reads folders of its node, and takes in those of others.

Two calls about one folder never work at the same time. All of it is done in threads.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from treadle.core.errors import EngineError, InvalidInputError
from treadle.engines.agent.copies import copy_messages as messages
from treadle.engines.agent.copies.command_paths import led_to
from treadle.engines.agent.copies.drafts import sweep_draft, sweep_work
from treadle.engines.agent.copies.incoming import Incoming, Owner, digest, drafts_in
from treadle.engines.agent.copies.own_folders import give, keep_newest
from treadle.engines.agent.copies.room import NoRoomError, check_room, is_full
from treadle.engines.agent.copies.tree import Entry, Listing, UncopyableError, listing, read
from treadle.engines.node.checkpoint_folders import CheckpointFolders, is_of
from treadle.engines.node.checkpoint_records import (
    CheckpointRecord,
    read_record,
    remove_record,
    write_record,
)

PIECE_MAX = 8 << 20  # bytes of one piece
CODE_KEPT = 8  # folders of code, by content
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}", re.ASCII)

T = TypeVar("T")
Roots = Callable[[str], "dict[str, Path]"]  # where the folders of each kind are, for a session


class Paths(Protocol):
    """Which paths there are on this node."""

    def has_folder(self, path: str) -> bool: ...
    def has_file(self, path: str) -> bool: ...


class AgentCopies:
    """What an agent answers."""

    def __init__(self, roots: Roots, here: Paths, node: str) -> None:
        """roots: raises LostPlaceError if the session is not the present one."""
        self._roots, self._here, self._node = roots, here, node
        # Those in use: the last call that wants a folder lets go of its lock.
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self.verbs: dict[str, Callable[[Any], Awaitable[object]]] = {
            "copy-stock": self._stock,
            "copy-kept": self._kept,
            "copy-list": self._list,
            "copy-read": self._read,
            "copy-expect": self._expect,
            "copy-write": self._write,
            "copy-commit": self._commit,
            "copy-drop": self._drop,
            "copy-sees": self._sees,
            "copy-unpack": self._unpack,
        }

    async def sweep(self, session: str) -> None:
        """Remove what is left of copies that broke off long ago."""
        roots = self._roots(session)
        for parent in (roots["checkpoints"], roots["code"]):
            for name in await asyncio.to_thread(drafts_in, parent):
                await self._locked(parent / name, sweep_draft)
        await asyncio.to_thread(sweep_work, roots["work"])

    async def _stock(self, asked: messages.StockAsked) -> messages.Stock:
        return await self._at(asked, _stock)

    async def _kept(self, asked: messages.KeptAsked) -> messages.Kept:
        place = self._roots(asked.session)["checkpoints"]
        folders = await asyncio.to_thread(CheckpointFolders(place.parent).of, asked.job)
        stocks = {folder.name: await self._locked(folder, _stock) for folder in folders}
        drafts = await asyncio.to_thread(drafts_in, place)
        return messages.Kept(
            stocks=stocks, drafts=tuple(name for name in drafts if is_of(name, asked.job))
        )

    async def _list(self, asked: messages.ListAsked) -> messages.Listed:
        def look(folder: Path) -> messages.Listed:
            return messages.Listed(entries=tuple(_told_apart(folder)))

        return await self._at(asked, look)

    async def _read(self, asked: messages.ReadAsked) -> messages.Piece:
        def look(folder: Path) -> messages.Piece:
            data = read(folder, asked.entry, asked.offset, min(asked.length, PIECE_MAX))
            return messages.Piece(data=data, digest=digest(data))

        return await self._at(asked, look)

    async def _expect(self, asked: messages.Expect) -> messages.Expected:
        def prepare(folder: Path) -> messages.Expected:
            missing = Incoming(folder).expect(asked.entries)
            check_room(self._node, folder.parent, sum(entry.size for entry in missing))
            return messages.Expected(missing=tuple(entry.path for entry in missing))

        return await self._take_in(asked, prepare)

    async def _write(self, asked: messages.Write) -> messages.Done:
        def take(folder: Path) -> messages.Done:
            owner = Owner(asked.uid, asked.gid)
            check_room(self._node, folder.parent, len(asked.data))
            Incoming(folder).write(asked.entry, asked.offset, asked.data, asked.digest, owner)
            return messages.Done(path=str(folder))

        return await self._take_in(asked, take)

    async def _commit(self, asked: messages.Commit) -> messages.Done:
        def take(folder: Path) -> messages.Done:
            known = read_record(folder)
            now = CheckpointRecord(
                attempt=asked.attempt,
                copied={entry.path: entry.mark for entry in asked.entries},
                own=tuple(entry.path for entry in asked.entries if entry.own),
            )
            if known == now and folder.is_dir():  # It was there, or the answer was lost.
                Incoming(folder).abandon()
                return messages.Done(path=str(folder))
            if known.written and known.attempt > asked.attempt:
                raise EngineError(
                    f"attempt {known.attempt} has written there, and this is a copy of attempt "
                    f"{asked.attempt}",
                    retryable=False,
                )
            Incoming(folder).commit(asked.entries, Owner(asked.uid, asked.gid))
            write_record(folder, now)
            return messages.Done(path=str(folder))

        return await self._take_in(asked, take)

    async def _drop(self, asked: messages.Dropped) -> messages.Done:
        def remove(folder: Path) -> messages.Done:
            Incoming(folder).abandon()
            record = read_record(folder)
            if record.attempt and not record.written and not asked.draft:
                shutil.rmtree(folder, ignore_errors=True)
                remove_record(folder)
            return messages.Done()

        return await self._at(asked, remove)

    async def _sees(self, asked: messages.SightAsked) -> messages.Sight:
        own = self._work_folder(asked.session, asked.name)

        def look() -> messages.Sight:
            given = own.is_dir()
            missing = [path for path in asked.files if not has(path, given)]
            there = given or self._here.has_folder(asked.path)
            return messages.Sight(
                there=there, missing=tuple(missing), own=str(own) if given else ""
            )

        def has(path: str, given: bool) -> bool:
            led = led_to(path, asked.path, str(own)) if given else path
            return os.path.exists(led) if led != path else self._here.has_file(path)  # noqa: PTH110

        return await asyncio.to_thread(look)

    async def _unpack(self, asked: messages.Unpack) -> messages.Done:
        own = self._work_folder(asked.session, asked.name)

        def unpack(folder: Path) -> messages.Done:
            if not own.is_dir():
                give(folder, own, Owner(asked.uid, asked.gid))
            os.utime(folder)
            keep_newest(folder.parent, CODE_KEPT)
            return messages.Done(path=str(own))

        return await self._at(asked, unpack)

    def _work_folder(self, session: str, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise InvalidInputError(f"{name[:80]!r} is not the name of a folder")
        return self._roots(session)["work"] / name

    async def _take_in(self, asked: Any, work: Callable[[Path], T]) -> T:  # noqa: ANN401
        """The same as `_at`; nothing of a copy stays for which there is no room."""

        def guarded(folder: Path) -> T:
            try:
                return work(folder)
            except NoRoomError:
                Incoming(folder).abandon()
                raise
            except OSError as error:
                if not is_full(error):
                    raise
                Incoming(folder).abandon()
                raise NoRoomError(self._node) from None

        return await self._at(asked, guarded)

    async def _at(self, asked: Any, work: Callable[[Path], T]) -> T:  # noqa: ANN401
        """Do something with a folder, in a thread, while nothing else is done with it."""
        folder: messages.Folder = asked.folder
        if not _NAME.fullmatch(folder.name):
            raise InvalidInputError(f"{folder.name[:80]!r} is not the name of a folder")
        return await self._locked(self._roots(asked.session)[folder.kind] / folder.name, work)

    async def _locked(self, path: Path, work: Callable[[Path], T]) -> T:
        lock = self._locks.setdefault(path, asyncio.Lock())
        try:
            async with lock:
                return await asyncio.to_thread(work, path)
        except OSError as error:
            raise EngineError(f"{path} cannot be copied: {error}", retryable=False) from None


def _told_apart(folder: Path) -> Iterator[Entry]:
    """What is there, and what of it the newest attempt has written itself."""
    record = read_record(folder)
    copied, own = record.copied or {}, set(record.own)
    for entry in listing(folder).entries:
        new = entry.mark != copied.get(entry.path) if record.written else entry.path in own
        yield replace(entry, own=True) if new else entry


def _stock(folder: Path) -> messages.Stock:
    Incoming(folder).recover()
    record = read_record(folder)
    try:
        found, objection = listing(folder), ""
    except UncopyableError as error:
        found, objection = Listing(), str(error)
    return messages.Stock(
        attempt=record.attempt,
        written=record.written,
        part=record.part,
        newest_ns=found.newest_ns,
        state=found.state,
        bytes=found.bytes,
        files=len(found.entries),
        objection=objection,
    )
