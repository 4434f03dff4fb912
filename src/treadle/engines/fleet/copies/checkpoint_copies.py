"""Brings the checkpoints of a job to the nodes on which it goes on.

Nodes that see the controller's folder have one store of checkpoints together; each other node has
one of its own. Every store keeps a record of the attempt that wrote there last, or of which it has
a copy (engines/node/checkpoint_records.py), so that the newest state is found on the nodes
themselves, also after a restart of the controller. Before a job goes on, all stores of its nodes
are made equal to that state:

    first node of the newest attempt   all that it has, and what the others wrote themselves
    that node is gone                  the second copy, and what the others wrote themselves; if
                                       there is none, the newest elsewhere. That is said
    larger than the limit              nothing is copied: the job goes on where they are, or waits

What an attempt wrote itself counts more than what it was given when it began, and what it wrote on
its first node more than what it wrote on the others.

While a job runs, its newest checkpoints are copied to a second node every minute (`second`), so
that the loss of a node costs little.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import NamedTuple
from weakref import WeakValueDictionary

from treadle.core.attempt import Fallback
from treadle.core.errors import EngineError
from treadle.core.job import JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.wording import gib_text
from treadle.core.wording import listed as named
from treadle.engines.agent.copies import copy_messages as messages
from treadle.engines.agent.copies.tree import ChangedError, Listing
from treadle.engines.fleet.copies.copier import (
    Asked,
    Copy,
    Source,
    asking,
    copy,
    listed,
    merged,
    part_of,
    until_ready,
)
from treadle.engines.fleet.traces import Traces
from treadle.engines.node.checkpoint_folders import folder_name

SHARED = ""  # the store of all nodes that see the controller's folder
JOBS_MAX = 20_000  # whose newest attempts are remembered
AT_ONCE = 2  # copies on their way

logger = logging.getLogger("treadle")


class StrandedError(EngineError):
    """The job can go on only on some nodes: its checkpoints are there and cannot be copied."""

    def __init__(self, why: str, nodes: Sequence[str]) -> None:
        where = f"{'node' if len(nodes) == 1 else 'nodes'} {named(nodes, 3)}"
        only = f"; it can go on only on {where}" if nodes else ""
        super().__init__(f"{why}{only}", retryable=False)
        self.why, self.nodes = why, tuple(nodes)


class Held(NamedTuple):
    """What one store has."""

    store: str
    client: Asked
    stock: messages.Stock

    @property
    def age(self) -> tuple[int, int, int]:
        """Larger is newer: the first node of an attempt, then copies of it, then its other nodes.

        A copy is of the first node, which has the whole; another node has what it was given when
        the attempt began, and its own.
        """
        stock = self.stock
        first = 0 if stock.part else 2
        return stock.attempt, first if stock.written else 1, stock.newest_ns

    @property
    def is_empty(self) -> bool:
        return not (self.stock.files or self.stock.objection)


class Known(NamedTuple):
    """The newest attempt of a job that this controller has launched or found."""

    attempt: int
    nodes: tuple[str, ...]
    launch: Launch | None


class CheckpointCopies:
    """What the fleet engine knows of checkpoints, and does about them."""

    def __init__(self, clients: Mapping[str, Asked], traces: Traces, limit_gib: float) -> None:
        """traces: the nodes on which jobs may have left something."""
        self._clients, self._traces, self._limit_gib = clients, traces, limit_gib
        self._known: dict[JobId, Known] = {}
        self._locks: WeakValueDictionary[JobId, asyncio.Lock] = WeakValueDictionary()
        self._turns = asyncio.Semaphore(AT_ONCE)
        # The state that the second copy holds, and the store that has it.
        self._copied: dict[JobId, tuple[str, str]] = {}
        # Nodes of checkpoints that cannot be copied, and why.
        self._large: dict[JobId, tuple[tuple[str, ...], str]] = {}
        self.doing: dict[JobId, str] = {}  # what is copied now, in one sentence for people
        # What jobs that are being launched begin with, where their newest checkpoints were lost.
        self.fallbacks: dict[JobId, Fallback] = {}

    @property
    def apart(self) -> bool:
        """Whether some node does not see the checkpoints of the others."""
        return any(client.shared is not True for client in self._clients.values())

    def remember(self, attempt: AttemptId, nodes: Sequence[str], launch: Launch | None) -> None:
        """An attempt is launched there, or was found."""
        self._known.pop(attempt.job, None)
        self._known[attempt.job] = Known(attempt.number, tuple(nodes), launch)
        if len(self._known) > JOBS_MAX:
            self._forget(next(iter(self._known)))

    def first_node(self, job: JobId) -> str:
        """Of its newest attempt; empty if that is not known."""
        known = self._known.get(job)
        return "" if known is None else known.nodes[0]

    def bound(self, job: JobId) -> tuple[tuple[str, ...], str]:
        """The nodes that a job cannot leave, and why, as far as is known while it runs."""
        return self._large.get(job, ((), ""))

    async def look_again(self, jobs: Sequence[JobId]) -> None:
        """Have `bound` know of these jobs, which run, what can be known now."""
        for job in jobs:
            with suppress(EngineError):
                await self.news(job)

    async def provide(
        self, launch: Launch, nodes: Sequence[str], wanted: Callable[[], bool]
    ) -> None:
        """Give all these nodes the newest checkpoints.

        Raises StrandedError, SupersededError or EngineError.
        """
        if not launch.resumed or not self.apart:
            return
        async with self._lock(launch.job):
            for node in nodes:
                if node in self._clients:
                    await until_ready(self._clients[node], wanted)
            held = await self._held(launch, nodes)
            written = [each for each in held if each.stock.attempt]
            # An attempt that wrote nothing has not made what was written before worthless.
            full = [each for each in written if not each.is_empty]
            origin = max(full or written, key=attrgetter("age"), default=None)
            self._tell_of_loss(launch, origin)
            if origin is None:
                return
            try:
                await self._spread(launch, origin, held, nodes, wanted)
            finally:
                self.doing.pop(launch.job, None)

    async def news(self, job: JobId) -> str:
        """The state of the checkpoints of a job that runs, if its second copy has another."""
        origin = await self._running(job)
        if origin is None:
            return ""
        state, store = self._copied.get(job, ("", ""))
        if origin.stock.state == state and self._nodes_of(store):
            return ""
        objection = origin.stock.objection
        if self._too_large(origin.stock.bytes) or objection:
            why = f"cannot be copied: {objection}"
            why = why if objection else self._too_large_text(origin.stock.bytes)
            self._large[job] = self._nodes_of(origin.store), f"its checkpoints {why}"
            return ""
        self._large.pop(job, None)
        return origin.stock.state

    async def second(self, job: JobId, state: str, wanted: Callable[[], bool]) -> None:
        """Copy the checkpoints of a job that runs to another store.

        Raises ChangedError if they are not in this state any more, or change while they are copied.
        """
        async with self._lock(job):
            known, origin = self._known.get(job), await self._running(job)
            if known is None or known.launch is None or origin is None:
                return
            if origin.stock.state != state:
                raise ChangedError("the checkpoints are being written")
            launch, writers = known.launch, {self._store(node) for node in known.nodes}
            held = {each.store: each for each in await self._held(launch, known.nodes)}
            target = self._second_store(held, writers)
            if target is None:
                return
            source = await listed(origin.client, _folder(launch))
            if Listing(source.entries).state != state:
                raise ChangedError("the checkpoints are being written")
            what = self._copy_of(launch, origin.stock.attempt, wanted)
            self._traces.also(job, target.name)
            async with self._turns:
                await copy(what, [source], target, still=True)
            self._copied[job] = state, self._store(target.name)

    async def _running(self, job: JobId) -> Held | None:
        """What the first node of a job has that runs; None if there is nothing to copy."""
        known = self._known.get(job)
        if known is None or known.launch is None or not self.apart:
            return None
        first = self._clients.get(known.nodes[0])
        found = None if first is None else await self._held_by(first, known.launch)
        return found if found is not None and found.stock.written and not found.is_empty else None

    async def drop(self, job: JobId) -> None:
        """The job has ended: remove copies of what is where it was written, and drafts.

        It is asked for by number, since another controller may have made them. A node that does not
        answer keeps what it has until the job's output is pruned.
        """
        self._forget(job)
        if not self.apart:
            return
        names = self._traces.among(self._clients, job)
        stores = {self._store(name): self._clients[name] for name in names}
        found = await asyncio.gather(*(self._kept_by(each, job) for each in stores.values()))
        held: dict[str, list[Held]] = {}  # by name of the folder
        for (store, client), kept in zip(stores.items(), found, strict=True):
            for name, stock in kept.stocks.items():
                held.setdefault(name, []).append(Held(store, client, stock))
            for name in kept.drafts:
                await self._remove(client, name, draft=True)
        for name, stocks in held.items():
            newest = max(stocks, key=attrgetter("age"))
            for each in stocks:
                if each.stock.attempt and not each.stock.written and each is not newest:
                    await self._remove(each.client, name)

    async def _kept_by(self, client: Asked, job: JobId) -> messages.Kept:
        try:
            asked = asking(messages.KeptAsked, job=job)
            return await client.within_session("copy-kept", asked, messages.Kept)
        except EngineError:
            return messages.Kept(stocks={})

    async def _remove(self, client: Asked, name: str, *, draft: bool = False) -> None:
        folder = messages.Folder(kind="checkpoints", name=name)
        with suppress(EngineError):
            asked = asking(messages.Dropped, folder=folder, draft=draft)
            await client.within_session("copy-drop", asked, messages.Done)

    # -- stores ---------------------------------------------------------------------------------

    def _store(self, node: str) -> str:
        client = self._clients.get(node)
        return SHARED if client is not None and client.shared else node

    def _nodes_of(self, store: str) -> tuple[str, ...]:
        return tuple(node for node in self._clients if self._store(node) == store)

    def _second_store(self, held: Mapping[str, Held], writers: set[str]) -> Asked | None:
        """Where a second copy goes: where an older one is, else to the next node by name."""
        others = {self._store(node): client for node, client in sorted(self._clients.items())}
        others = {store: client for store, client in others.items() if store not in writers}
        have = [store for store in others if store in held and not held[store].is_empty]
        first = min(writers)
        behind = [store for store in others if store > first] or list(others)
        chosen = next(iter(have or behind), None)
        return None if chosen is None else others[chosen]

    async def _held(self, launch: Launch, nodes: Sequence[str]) -> list[Held]:
        """What each store has that may have something, and those of these nodes."""
        maybe = {*self._traces.among(self._clients, launch.job), *nodes}
        stores = {
            self._store(node): client for node, client in self._clients.items() if node in maybe
        }

        held = (self._held_by(client, launch) for client in stores.values())
        return [each for each in await asyncio.gather(*held) if each is not None]

    async def _held_by(self, client: Asked, launch: Launch) -> Held | None:
        """What the store of a node has; None if the node has left."""
        asked = asking(messages.StockAsked, folder=_folder(launch))
        try:
            stock = await client.within_session("copy-stock", asked, messages.Stock)
        except EngineError:
            if self._clients.get(client.name) is client:
                raise
            return None
        return Held(self._store(client.name), client, stock)

    # -- copies ---------------------------------------------------------------------------------

    async def _spread(
        self,
        launch: Launch,
        origin: Held,
        held: Sequence[Held],
        nodes: Sequence[str],
        wanted: Callable[[], bool],
    ) -> None:
        stores = dict.fromkeys(self._store(node) for node in nodes)
        if origin.stock.objection and set(stores) != {origin.store}:
            self._refuse(origin, f"cannot be copied: {origin.stock.objection}")
        sources = await self._sources(launch, origin, held)
        pieces = len(sources) > 1
        targets = [
            each
            for each in held
            if each.store in stores
            and (each is not origin or pieces)
            and not (each.is_empty and origin.is_empty)
        ]
        total = sum(entry.size for entry, _ in merged(sources).values())
        if targets and self._too_large(total):
            self._refuse(origin, self._too_large_text(total))
        for target in targets:
            whither = f"from node {origin.client.name} to node {target.client.name}"
            self.doing[launch.job] = f"its checkpoints are about to be copied {whither}"

            def progress(done: int, of: int, whither: str = whither) -> None:
                part = part_of(done, of)
                self.doing[launch.job] = f"its checkpoints are being copied {whither}: {part}"

            what = self._copy_of(launch, origin.stock.attempt, wanted, progress)
            self._traces.also(launch.job, target.client.name)
            async with self._turns:
                await copy(what, sources, target.client)

    async def _sources(self, launch: Launch, origin: Held, held: Sequence[Held]) -> list[Source]:
        """The origin, and what other nodes of the same attempt have written themselves."""
        folder = _folder(launch)
        if origin.stock.objection:
            return [Source(origin.client, ())]
        sources = [await listed(origin.client, folder)]
        for each in sorted(held, key=lambda each: each.stock.part):
            stock = each.stock
            if each is not origin and stock.written and stock.attempt == origin.stock.attempt:
                found = await listed(each.client, folder)
                sources += [found] if any(entry.own for entry in found.entries) else []
        return sources

    def _copy_of(
        self,
        launch: Launch,
        attempt: int,
        wanted: Callable[[], bool],
        progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
    ) -> Copy:
        return Copy(
            folder=_folder(launch),
            attempt=attempt,
            uid=launch.uid,
            gid=launch.gid,
            wanted=wanted,
            progress=progress,
        )

    def _refuse(self, origin: Held, why: str) -> None:
        raise StrandedError(f"its checkpoints {why}", self._nodes_of(origin.store))

    def _too_large_text(self, amount: int) -> str:
        return (
            f"hold {gib_text(amount / 2**30)}, and at most {gib_text(self._limit_gib)} are copied"
        )

    def _too_large(self, amount: int) -> bool:
        return amount > self._limit_gib * 2**30

    def _tell_of_loss(self, launch: Launch, origin: Held | None) -> None:
        """Say so if the newest checkpoints are not there any more."""
        known, before = self._known.get(launch.job), self.fallbacks.get(launch.job)
        if before is not None and before.lost in self._clients:  # It has returned.
            self.fallbacks.pop(launch.job)
        if known is None or known.nodes[0] in self._clients:
            return
        attempt, lost = known.attempt, f"are on node {known.nodes[0]}, which is lost"
        self.fallbacks[launch.job] = _fallback(known, origin)
        if origin is None or origin.is_empty:
            text = f"there are no checkpoints; any that attempt {attempt} wrote {lost}"
            logger.warning("job %s begins anew: %s", launch.job, text)
        else:
            text = f"node {origin.client.name} has: those of attempt {attempt} {lost}"
            logger.warning("job %s goes on from what %s", launch.job, text)

    def _lock(self, job: JobId) -> asyncio.Lock:
        return self._locks.setdefault(job, asyncio.Lock())

    def _forget(self, job: JobId) -> None:
        self._known.pop(job, None)
        self._copied.pop(job, None)
        self._large.pop(job, None)
        self.fallbacks.pop(job, None)


def _fallback(known: Known, origin: Held | None) -> Fallback:
    lost = known.nodes[0]
    if origin is None or origin.is_empty:
        return Fallback(known.attempt, lost)
    written_at = origin.stock.newest_ns / 1e9
    return Fallback(known.attempt, lost, origin.client.name, written_at)


def _folder(launch: Launch) -> messages.Folder:
    return messages.Folder(kind="checkpoints", name=folder_name(launch.job, launch.submission))
