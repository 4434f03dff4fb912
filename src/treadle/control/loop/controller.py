"""The live loop: gather what happened, step the scheduler, have its orders carried out.

It is kept as small as the simulator's on purpose, and driven by the simulated engine it gives the
simulator's orders (tests/properties/test_two_worlds.py). A step is committed before it is carried
out: an order that is not on disk is not given. A policy that thinks long does not keep people
waiting: between its decisions the loop takes facts.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from treadle.control.jobs import Fact, LastWords, core_facts
from treadle.control.loop.clock import worked_s
from treadle.core.actions import Action
from treadle.core.events import AttemptEnded, Event
from treadle.core.ports import Clock
from treadle.core.scheduler import Observer, Scheduler

OnError = Callable[[float, Exception], None]
# Called with the seconds that a decision took, those of the processor, and its orders.
OnDecided = Callable[[float, float, Sequence[Action]], None]
AGAIN_S = 30.0  # a policy that failed is asked again after so long, if nothing happens before
FOLLOW_UPS_MAX = 3  # rounds of facts that follow from facts, before a decision
QUICK_S = 0.005  # a decision that takes less is written together with the facts before it
PACE = 4.0  # after a decision the loop listens for this many times as long as that took


class CarriesOut(Protocol):
    """The one thing that the loop needs of an engine."""

    async def carry_out(self, actions: Sequence[Action]) -> None: ...


class Facts(Protocol):
    """A queue of facts; None wakes the loop and says nothing."""

    def empty(self) -> bool: ...
    def get_nowait(self) -> Fact | None: ...
    async def get(self) -> Fact | None: ...
    def put_nowait(self, fact: None, /) -> None: ...


class Steps(Protocol):
    """Makes steps durable."""

    async def read(self, ended: AttemptEnded) -> LastWords:
        """What the output says of an attempt that has ended."""
        ...

    def complete(
        self, ended: AttemptEnded, words: LastWords, earlier: Sequence[Fact]
    ) -> list[Fact]:
        """An end that an engine reported, with what the controller knows, and what follows."""
        ...

    def apply(self, now: float, facts: Sequence[Fact], actions: Sequence[Action]) -> None:
        """Take facts and the orders that follow from them to the records."""
        ...

    async def settle(self) -> None:
        """Write what was applied; orders are carried out afterwards."""
        ...

    def abandon(self, error: Exception) -> None:
        """The controller failed, perhaps within a step: write nothing of it."""
        ...


class Controller:
    """Runs a scheduler until it is cancelled."""

    def __init__(
        self,
        scheduler: Scheduler,
        engine: CarriesOut,
        clock: Clock,
        inbox: Facts,
        *,
        observers: Sequence[Observer] = (),
        steps: Steps | None = None,
        on_error: OnError,
        on_decided: OnDecided | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._engine = engine
        self._clock = clock
        self._inbox = inbox
        self._observers = tuple(observers)
        self._steps = steps
        self._on_error = on_error
        self._on_decided = on_decided
        self._listens_until = 0.0
        self._decision_s = 0.0  # how long the last one took
        self._orders: list[Action] = []  # that were applied and not carried out

    async def run(self) -> None:
        try:
            while True:
                await self._turn()
        except Exception as error:
            if self._steps is not None:
                self._steps.abandon(error)
            raise

    async def _turn(self) -> None:
        """Take what has happened, decide, and have it done."""
        facts = await self._gather()
        now = self._clock.now()
        events = core_facts(facts)
        actions = self._scheduler.take(events, now)
        if facts or actions:
            self._apply(now, facts, actions)
        if actions:
            await self._give()  # What needs no policy does not wait for one.
        await self._follow_up(events, actions)
        now = self._clock.now()
        if self._scheduler.is_due(now) and now >= self._listens_until:
            if self._decision_s > QUICK_S:
                # Facts are on record before the policy thinks about them for a while.
                await self._give()
                now = self._clock.now()
            decided = self._decide(now)
            self._decision_s = self._clock.now() - now
            self._listens_until = now + (1.0 + PACE) * self._decision_s
            self._apply(now, (), decided)
            actions += decided
        await self._give()
        for observe in self._observers:
            observe(now, events, actions, self._scheduler)

    async def _follow_up(self, events: list[Event], actions: list[Action]) -> None:
        """Take in what follows from facts before anything is decided on them.

        A job that waited for one that has ended must be released before a job of lower priority
        is given its devices.
        """
        for _ in range(FOLLOW_UPS_MAX):
            arrived = self._drain()
            if any(isinstance(fact, AttemptEnded) for fact in arrived):
                await self._give()  # To complete them may take a while.
            more = await self._completed(arrived)
            if not more:
                return
            # A moment of its own: others may have written to the journal meanwhile, and there
            # time does not run backwards.
            now = self._clock.now()
            taken = core_facts(more)
            forced = self._scheduler.take(taken, now)
            self._apply(now, more, forced)
            events += taken
            actions += forced

    def _apply(self, now: float, facts: Sequence[Fact], actions: Sequence[Action]) -> None:
        """Take a step to the records; a decision without orders is one too, at its own moment."""
        if self._steps is not None:
            self._steps.apply(now, facts, actions)
        self._orders += actions

    async def _give(self) -> None:
        """Write down what happened and what is ordered, then have it done."""
        if self._steps is not None:
            await self._steps.settle()
        orders, self._orders = self._orders, []
        if orders:
            await self._engine.carry_out(orders)

    def _decide(self, now: float) -> Sequence[Action]:
        """A policy's mistake stops the decision and not the controller: what runs, runs on."""
        began_s = worked_s()
        try:
            actions = self._scheduler.decide(now)
        except Exception as error:  # a third party's policy may raise anything
            self._scheduler.wake_at = min(self._scheduler.wake_at, now + AGAIN_S)
            self._on_error(now, error)
            return ()
        if self._on_decided is not None:
            self._on_decided(self._clock.now() - now, worked_s() - began_s, actions)
        return actions

    async def _gather(self) -> list[Fact]:
        """Everything in the inbox, complete; if it is empty, wait for it or for the alarm."""
        return await self._completed(await self._arrivals())

    async def _completed(self, facts: list[Fact]) -> list[Fact]:
        steps = self._steps
        ends = [fact for fact in facts if isinstance(fact, AttemptEnded)]
        if steps is None or not ends:
            return facts
        words = iter(await asyncio.gather(*map(steps.read, ends)))
        whole: list[Fact] = []
        for fact in facts:
            if isinstance(fact, AttemptEnded):
                whole += steps.complete(fact, next(words), whole)
                await asyncio.sleep(0)  # Of a thousand ends, requests need not wait for the last.
            else:
                whole.append(fact)
        return whole

    async def _arrivals(self) -> list[Fact]:
        """Everything in the inbox. None is no fact: it only wakes the loop."""
        # Drain first: waiting on a queue with no time left takes nothing, not even from a full one.
        events = self._drain()
        now = self._clock.now()
        wake_at = now if self._scheduler.is_due(now) else self._scheduler.wake_at
        wake_at = max(wake_at, self._listens_until)
        if events or now >= wake_at:
            return events
        alarm = asyncio.ensure_future(self._clock.sleep_until(wake_at))
        alarm.add_done_callback(self._ring)
        try:
            first = await self._inbox.get()
        finally:
            alarm.cancel()
        return ([] if first is None else [first]) + self._drain()

    def _ring(self, alarm: "asyncio.Future[None]") -> None:
        if not alarm.cancelled():
            self._inbox.put_nowait(None)

    def _drain(self) -> list[Fact]:
        events: list[Fact] = []
        while not self._inbox.empty():
            event = self._inbox.get_nowait()
            if event is not None:
                events.append(event)
        return events
