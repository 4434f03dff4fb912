"""Clocks that tests move."""

import asyncio
from collections.abc import Sequence
from math import inf

from treadle.core.actions import Action
from treadle.core.events import Event
from treadle.core.ports import Abilities
from treadle.sim.engine import SimulatedEngine


class ManualClock:
    """Stands still until `advance` is called; sleepers wake in order of their moments."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        return self._now

    async def sleep_until(self, moment: float) -> None:
        if moment <= self._now:
            return
        woken = asyncio.Event()
        self._sleepers.append((moment, woken))
        await woken.wait()

    def advance(self, to: float) -> None:
        """Move to a moment and wake every sleeper that is due."""
        assert to >= self._now, "time does not run backwards"
        self._now = to
        due = sorted((s for s in self._sleepers if s[0] <= to), key=lambda sleeper: sleeper[0])
        self._sleepers = [s for s in self._sleepers if s[0] > to]
        for _, woken in due:
            woken.set()


class SimulatedWorld:
    """The simulated engine behind the live port, with a clock that jumps when the controller idles.

    The controller sleeps only when it has nothing to do. The clock then jumps to the next event
    and puts it in the inbox.
    """

    abilities = Abilities(resize=True, move=True, change_plan=True, share=True)

    def __init__(self, engine: SimulatedEngine) -> None:
        self.inbox: asyncio.Queue[Event | None] = asyncio.Queue()
        self.ended = asyncio.Event()  # no further event will happen
        self._engine = engine
        self._now = 0.0

    @property
    def next_at(self) -> float:
        """The time of the engine's next event."""
        return self._engine.next_at

    def now(self) -> float:
        return self._now

    async def sleep_until(self, moment: float) -> None:
        now = min(moment, self._engine.next_at)
        if now == inf:
            self.ended.set()
            await asyncio.Event().wait()
        self._now = now
        events = self._engine.due(now)
        for event in events:
            self.inbox.put_nowait(event)
        if now < moment and not events:
            await asyncio.Event().wait()

    async def carry_out(self, actions: Sequence[Action]) -> None:
        self._engine.carry_out(actions, self._now)
