"""The simulator's loop: the same scheduler as live, an engine of arithmetic, a clock that jumps."""

from collections.abc import Callable, Sequence
from math import ceil, inf
from typing import Self

from treadle.core.scheduler import Observer, Scheduler
from treadle.sim.engine import SimulatedEngine

Look = Callable[[float], float]

WAKES_MAX = 16  # times in a row that a policy may be woken in vain for each job that waits


def exactly(moment: float) -> float:
    """Look when something happens."""
    return moment


def rounds(every_s: float) -> Look:
    """Look only at round ends: whatever happens within a round is seen, and dated, at its end."""

    def look(moment: float) -> float:
        if moment == inf:
            return inf
        number = ceil(moment / every_s)
        # The division may be a hair too large: 3 x 0.1 / 0.1 is above 3.
        return number * every_s if (number - 1) * every_s < moment else (number - 1) * every_s

    return look


class Simulation:
    """A run that can be stepped, observed, stopped at a moment and forked there."""

    def __init__(
        self,
        scheduler: Scheduler,
        engine: SimulatedEngine,
        *,
        look: Look = exactly,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.scheduler = scheduler
        self.engine = engine
        self.now = 0.0
        self._look = look
        self._observers = tuple(observers)

    def run(self, until: float = inf) -> None:
        """Go on until nothing is left to happen, or up to and including a moment."""
        scheduler, engine, look = self.scheduler, self.engine, self._look
        state = scheduler.state
        idle = 0
        while (now := look(min(engine.next_at, state.wake_at))) <= until and now < inf:
            events = engine.due(now)
            actions = scheduler.step(events, now)
            engine.carry_out(actions, now)
            self.now = now
            for observe in self._observers:
                observe(now, events, actions, scheduler)
            idle = 0 if events or actions or engine.next_at < inf else idle + 1
            if idle > WAKES_MAX * len(state.ranking.queue):
                break  # The policy wants to be asked again and again, and nothing ever changes.

    def observe(self, observer: Observer) -> None:
        """Let somebody else watch from now on."""
        self._observers = (*self._observers, observer)

    def fork(self, observers: Sequence[Observer] = ()) -> Self:
        """An independent twin from this moment on."""
        twin = type(self)(
            self.scheduler.fork(), self.engine.fork(), look=self._look, observers=observers
        )
        twin.now = self.now
        return twin
