"""One look a second at what changed, written once and sent to every page that listens.

The hub looks only while somebody listens, and for a while after, so that a reader who comes back
misses nothing. Frames are kept in a ring. Nothing is kept for one reader: each has a place in the
ring, and one that falls out of it is dropped and comes back with its last id, or begins anew.

Jobs that were named by an event are looked at every time. Of the running ones, whose steps go on,
and of all, whose place or reason may change without an event, a part is looked at in turn; up to
RUNNING_TURN running jobs are seen every second, 512 within four.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from fastapi.sse import format_sse_event

from treadle.control.api import LiveService
from treadle.control.loop import wall
from treadle.core.errors import TreadleError
from treadle.core.machine import NodeView
from treadle.core.ports import Clock
from treadle.server.answers import close_source, encoded
from treadle.wire.decisions import Decision
from treadle.wire.jobs import JobView, State, in_short
from treadle.wire.machine import EventView, Status
from treadle.wire.problems import RequestError

EVERY_S = 1.0
ID_BITS = 52  # a browser counts exactly to 53
FRAMES_MAX = 120
FRAMES_BYTES_MAX = 16 * 2**20  # of all in the ring; the newest is kept however long it is
LINGER_S = 30.0  # after the last reader left
RUNNING_TURN = 128  # running jobs, each time
TURN = 120  # of all jobs, each time
EVENTS_MAX = 1000  # of one frame; more begin all readers anew
DECISIONS_MAX = 100  # of one frame, the newest
ENDED_MAX = 200  # whose last view is read from the store for one frame
WAITING = frozenset({State.PENDING, State.HELD})

logger = logging.getLogger("treadle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One frame of the stream, the same for all its readers."""

    id: int
    at: float  # seconds since 1970
    status: Status
    jobs: tuple[JobView, ...]  # that changed, those that have just ended too
    gone: tuple[str, ...]  # ids that are no longer active
    nodes: tuple[NodeView, ...]  # that changed
    lost: tuple[str, ...]  # names of nodes that are no longer there
    events: tuple[EventView, ...]
    decisions: tuple[Decision, ...]


class Frame(NamedTuple):
    id: int
    text: bytes


class Hub:
    """What the streams of one server share."""

    def __init__(self, service: LiveService, clock: Clock) -> None:
        self._service = service
        self._clock = clock
        self._ring: deque[Frame] = deque()
        self._ring_bytes = 0
        # An id that another daemon gave is not among ours, whatever became of the clock since.
        self.newest = secrets.randbits(ID_BITS)
        self._news = asyncio.Event()
        self._began = asyncio.Event()  # by the task: from then on nothing that happens is missed
        self._readers = 0
        self._task: asyncio.Task[None] | None = None

    async def frames(self, after: int | None) -> AsyncIterator[Frame]:
        """Frames after that id, and then as they come.

        An empty one is a moment without news, for a caller who has something else to send.
        """
        self._readers += 1
        self._start()
        try:
            place = self.newest if after is None or not self._has(after) else after
            if place != after:
                # Of what is in the lists, and ends before the first look, only events tell.
                await self._began.wait()
                text = format_sse_event(event="reset", id=str(place), data_str="{}")
                yield Frame(place, text)
            while self._has(place) and self._task is not None:
                news = self._news
                for frame in [each for each in self._ring if each.id > place]:
                    # The reader may have taken its time: it is to go on in the ring, or not at all.
                    if not self._has(place):
                        return
                    place = frame.id
                    yield frame
                yield Frame(place, b"")
                if self.newest == place:
                    await news.wait()
        finally:
            self._readers -= 1

    def _has(self, after: int) -> bool:
        """Whether everything after that id is in the ring."""
        return (self._ring[0].id - 1 if self._ring else self.newest) <= after <= self.newest

    def _start(self) -> None:
        if self._task is None:
            self._ring.clear()
            self._ring_bytes = 0
            self.newest += 1  # what came before is not in the ring
            self._began = asyncio.Event()
            self._task = asyncio.create_task(self._run(self._began))

    def keep(self, frame: Frame) -> None:
        """Put the newest frame into the ring; the oldest make room."""
        self.newest = frame.id
        self._ring.append(frame)
        self._ring_bytes += len(frame.text)
        while len(self._ring) > 1 and (
            len(self._ring) > FRAMES_MAX or self._ring_bytes > FRAMES_BYTES_MAX
        ):
            self._ring_bytes -= len(self._ring.popleft().text)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, began: asyncio.Event) -> None:
        look = _Look(self._service)
        try:
            await look.begin()
            began.set()
            left_at = self._clock.now()
            while self._readers or self._clock.now() - left_at < LINGER_S:
                if self._readers:
                    left_at = self._clock.now()
                await self._clock.sleep_until(self._clock.now() + EVERY_S)
                tick = await look.changes(self.newest + 1)
                if tick is None:
                    self._wake()  # logs may have something
                    continue
                text = format_sse_event(
                    event="tick", id=str(tick.id), data_str=encoded(tick).decode()
                )
                self.keep(Frame(tick.id, text))
                self._wake()
        except (RequestError, TreadleError) as error:
            logger.warning("the page's stream begins anew: %s", error)
        finally:
            self._task = None
            began.set()  # Those who wait for it begin anew.
            self._wake()
            await look.close()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class TooManyEventsError(TreadleError):
    """More happened within a second than one frame takes."""


class _Look:
    """What was seen the last time, and what is new since."""

    def __init__(self, service: LiveService) -> None:
        self._service = service
        self._status: Status | None = None
        self._jobs: dict[str, JobView] = {}
        self._nodes: dict[str, NodeView] = {}
        self._events: list[EventView] = []
        self._decision = 0
        self._running_turn = 0
        self._turn = 0
        self._hears: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        after = (await self._service.events_last(limit=1)).next
        self._hears = asyncio.create_task(self._hear(after))
        self._decision = self._service.decisions(limit=1).next
        self._nodes = {each.name: each for each in self._service.nodes()}

    async def close(self) -> None:
        if self._hears is not None:
            self._hears.cancel()
            await asyncio.gather(self._hears, return_exceptions=True)

    async def _hear(self, after: int) -> None:
        source = self._service.follow(after=after)
        try:
            async for event in source:
                if len(self._events) <= EVENTS_MAX:
                    self._events.append(event)
        finally:
            await close_source(source)

    async def changes(self, number: int) -> Tick | None:
        """A frame with what changed; None if nothing did."""
        if self._hears is not None and self._hears.done():
            self._hears.result()  # Raises what ended it: readers begin anew, and hear again.
        events, self._events = self._events, []
        if len(events) > EVENTS_MAX:
            raise TooManyEventsError(f"more than {EVENTS_MAX} events in {EVERY_S:g} s")
        jobs, gone = await self._changed(events)
        there = self._service.nodes()
        nodes = [each for each in there if self._nodes.get(each.name) != each]
        lost = self._nodes.keys() - {each.name for each in there}
        self._nodes = {each.name: each for each in there}
        made = self._service.decisions(after=self._decision, limit=DECISIONS_MAX)
        self._decision = made.next
        status = self._service.status()
        news = jobs or gone or nodes or lost or events or made.decisions
        if not news and status == self._status:
            return None
        self._status = status
        return Tick(
            id=number,
            at=wall(),
            status=status,
            jobs=tuple(jobs),
            gone=tuple(gone),
            nodes=tuple(nodes),
            lost=tuple(sorted(lost)),
            events=tuple(events),
            decisions=made.decisions,
        )

    async def _changed(self, events: Sequence[EventView]) -> tuple[list[JobView], list[str]]:
        active = dict.fromkeys(self._service.active_ids())
        named = dict.fromkeys(event.job for event in events if event.job)
        gone = [name for name in dict.fromkeys((*self._jobs, *named)) if name not in active]
        wanted = [name for name in named if name in active]
        runs = [name for name, job in self._jobs.items() if job.state not in WAITING]
        self._running_turn = self._running_turn if self._running_turn < len(runs) else 0
        wanted += islice(runs, self._running_turn, self._running_turn + RUNNING_TURN)
        self._running_turn += RUNNING_TURN
        self._turn = self._turn if self._turn < len(active) else 0
        wanted += islice(active, self._turn, self._turn + TURN)
        self._turn += TURN
        views = list(await self._service.active_views(tuple(dict.fromkeys(wanted))))
        changed = [view for view in views if self._jobs.get(view.id) != view]
        self._jobs.update((view.id, view) for view in changed)
        for name in gone:
            self._jobs.pop(name, None)
        for name in gone[:ENDED_MAX]:
            try:
                job = (await self._service.job(name)).job
                changed.append(replace(job, command=in_short(job.command)))
            except RequestError:
                continue  # it was deleted, or the name is not a job's
        return changed, gone
