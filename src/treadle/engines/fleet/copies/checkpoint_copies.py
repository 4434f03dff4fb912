"""Brings the checkpoints of a job to the nodes on which it goes on.

Nodes that see the controller's folder have one store of checkpoints together; each other node has
one of its own. Every store keeps a record of the attempt that wrote there last, or of which it has
a copy (engines/node/checkpoint_records.py), so that the newest state is found on the nodes
themselves, also after a restart of the controller. Before a job goes on, all stores of its nodes
are made equal to that state:

    first node of the newest attempt   all that it has, and what the others wrote themselves
    that node is gone                  the newest that there is elsewhere, and that is said
    larger than the limit              nothing is copied: the job goes on where they are, or waits

While a job runs, its newest checkpoints are copied to a second node every minute (`second`), so
that the loss of a node costs little.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple
from weakref import WeakValueDictionary

from treadle.core.attempt import Fallback
from treadle.core.errors import EngineError
from treadle.core.job import JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.wording import gib_text
from treadle.core.wording import listed as named
from treadle.engines.fleet.copies import copy_messages as messages
from treadle.engines.fleet.copies.copier import (
    Asked,
    Copy,
    Source,
    asking,
    copy,
    listed,
    merged,
    part_of,
)
from treadle.engines.fleet.traces import Traces
from treadle.engines.node.checkpoint_folders import folder_name

SHARED = ""  # the store of all nodes that see the controller's folder
JOBS_MAX = 20_000  # whose newest attempts are remembered
AT_ONCE = 2  # copies on their way

logger = logging.getLogger("treadle")


class StrandedError(EngineError):
    """The job can go on only on some nodes: its checkpoints are there and cannot be copied."""

    def __init__(self, message: str, nodes: Sequence[str]) -> None:
        super().__init__(message, retryable=False)
        self.nodes = tuple(nodes)


class Held(NamedTuple):
    """What one store has."""

    store: str
    client: Asked
    stock: messages.Stock

    @property
    def age(self) -> tuple[int, bool, int]:
        """Larger is newer. What an attempt wrote itself is never behind copies of it."""
        stock = self.stock
        return stock.attempt, stock.written and not stock.part, stock.newest_ns

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
        self._copied: dict[JobId, tuple[str, int, int]] = {}  # what the second copy holds
        self._large: dict[JobId, tuple[str, ...]] = {}  # nodes of checkpoints above the limit
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

    def bound(self, job: JobId) -> tuple[str, ...]:
        """The nodes that a job cannot leave, as far as is known while it runs."""
        return self._large.get(job, ())

    async def provide(
        self, launch: Launch, nodes: Sequence[str], wanted: Callable[[], bool]
    ) -> None:
        """Give all these nodes the newest checkpoints. Raises StrandedError, or EngineError."""
        if not launch.resumed or not self.apart:
            return
        async with self._lock(launch.job):
            for node in nodes:
                if node in self._clients:
                    await self._clients[node].ready()
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

    async def second(self, job: JobId, wanted: Callable[[], bool]) -> None:
        """Copy the newest checkpoints of a job that runs to another store, if it has new ones."""
        known = self._known.get(job)
        if known is None or known.launch is None or not self.apart:
            return
        launch, writers = known.launch, {self._store(node) for node in known.nodes}
        async with self._lock(job):
            first = self._clients.get(known.nodes[0])
            origin = None if first is None else await self._held_by(first, launch)
            if origin is None or not origin.stock.written or origin.is_empty:
                return
            state = (origin.stock.newest_ns, origin.stock.bytes)
            if self._copied.get(job, ("", 0, 0))[1:] == state:
                return
            if self._too_large(origin.stock.bytes) or origin.stock.objection:
                self._large[job] = self._nodes_of(origin.store)
                return
            self._large.pop(job, None)
            held = {each.store: each for each in await self._held(launch, known.nodes)}
            target = self._second_store(held, writers)
            if target is None:
                return
            source = await listed(origin.client, _folder(launch))
            what = self._copy_of(launch, origin.stock.attempt, wanted)
            self._traces.also(job, target.name)
            async with self._turns:
                await copy(what, [source], target, still=True)
            self._copied[job] = (target.name, *state)

    async def drop(self, job: JobId) -> None:
        """The job has ended: remove copies of what is where it was written."""
        known = self._known.get(job)
        self._forget(job)
        if known is None or known.launch is None or not self.apart:
            return
        held = await self._held(known.launch, ())
        newest = max(
            (each for each in held if each.stock.attempt), key=attrgetter("age"), default=None
        )
        if newest is None or not newest.stock.written:
            return
        for each in held:
            if not each.stock.written and each.stock.attempt:
                asked = asking(messages.Dropped, folder=_folder(known.launch))
                await each.client.within_session("copy-drop", asked, messages.Done)

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
            limit = gib_text(self._limit_gib)
            self._refuse(origin, f"hold {gib_text(total / 2**30)}, and at most {limit} are copied")
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
        if not origin.stock.written or origin.stock.part:
            return sources
        for each in sorted(held, key=lambda each: each.stock.part):
            stock = each.stock
            if each is not origin and stock.written and stock.attempt == origin.stock.attempt:
                own = await listed(each.client, folder, own=True)
                sources += [own] if own.entries else []
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
        nodes = self._nodes_of(origin.store)
        where = f"node {named(nodes, 3)}" if len(nodes) == 1 else f"nodes {named(nodes, 3)}"
        raise StrandedError(f"its checkpoints on {where} {why}; it can go on only there", nodes)

    def _too_large(self, amount: int) -> bool:
        return amount > self._limit_gib * 2**30

    def _tell_of_loss(self, launch: Launch, origin: Held | None) -> None:
        """Say so if the newest checkpoints are not there any more."""
        known, before = self._known.get(launch.job), self.fallbacks.get(launch.job)
        if before is not None and before.lost in self._clients:  # It has returned.
            self.fallbacks.pop(launch.job)
        if known is None or known.nodes[0] in self._clients:
            return
        lost = f"those of attempt {known.attempt} are on node {known.nodes[0]}, which is lost"
        self.fallbacks[launch.job] = _fallback(known, origin)
        if origin is None or origin.is_empty:
            logger.warning("job %s begins anew: there are no checkpoints; %s", launch.job, lost)
        else:
            where = origin.client.name
            logger.warning("job %s goes on from what node %s has: %s", launch.job, where, lost)

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
