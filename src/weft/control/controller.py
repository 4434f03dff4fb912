"""The live loop: gather what happened, step the scheduler, have its orders carried out.

It is kept as small as the simulator's on purpose, and driven by the simulated engine it gives the
simulator's orders (tests/properties/test_two_worlds.py).
"""

import asyncio
from collections.abc import Callable, Sequence

from weft.core.actions import Action
from weft.core.events import Event
from weft.core.ports import Clock, Engine
from weft.core.scheduler import Observer, Scheduler

OnError = Callable[[float, Exception], None]


class Controller:
    """Runs a scheduler until it is cancelled."""

    def __init__(
        self,
        scheduler: Scheduler,
        engine: Engine,
        clock: Clock,
        inbox: "asyncio.Queue[Event]",
        *,
        observers: Sequence[Observer] = (),
        on_error: OnError,
    ) -> None:
        self._scheduler = scheduler
        self._engine = engine
        self._clock = clock
        self._inbox = inbox
        self._observers = tuple(observers)
        self._on_error = on_error

    async def run(self) -> None:
        while True:
            events = await self._gather()
            now = self._clock.now()
            actions = self._step(events, now)
            await self._engine.carry_out(actions)
            for observe in self._observers:
                observe(now, events, actions, self._scheduler)

    def _step(self, events: Sequence[Event], now: float) -> list[Action]:
        """A policy's mistake stops the decision and not the controller: what runs, runs on."""
        actions = self._scheduler.take(events, now)
        if self._scheduler.is_due(now):
            try:
                actions += self._scheduler.decide(now)
            except Exception as error:  # a third party's policy may raise anything
                self._on_error(now, error)
        return actions

    async def _gather(self) -> list[Event]:
        """Everything in the inbox; if it is empty, wait for it or for the scheduler's alarm."""
        # Drain first: waiting on a queue with no time left takes nothing, not even from a full one.
        events = self._drain()
        if events or self._clock.now() >= self._scheduler.wake_at:
            return events
        arrival = asyncio.ensure_future(self._inbox.get())
        alarm = asyncio.ensure_future(self._clock.sleep_until(self._scheduler.wake_at))
        try:
            await asyncio.wait({arrival, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if arrival.done():
                events.append(arrival.result())
        finally:
            arrival.cancel()
            alarm.cancel()
        return events + self._drain()

    def _drain(self) -> list[Event]:
        events: list[Event] = []
        while not self._inbox.empty():
            events.append(self._inbox.get_nowait())
        return events
