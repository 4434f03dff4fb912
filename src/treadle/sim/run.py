"""The simulator's loop: the same scheduler as live, an engine of arithmetic, a clock that jumps."""

from collections.abc import Callable, Sequence
from math import ceil, inf
from typing import Protocol, Self

from treadle.core.actions import Action
from treadle.core.events import Event
from treadle.core.scheduler import Observer, Scheduler

Look = Callable[[float], float]

WAKES_MAX = 16  # wake-ups without effect in a row that a policy may have, for each waiting job


def exactly(moment: float) -> float:
    """Decide at the time of each event."""
    return moment


def rounds(every_s: float) -> Look:
    """Decide only at the end of rounds: events within a round are seen, and dated, at its end."""

    def look(moment: float) -> float:
        if moment == inf:
            return inf
        number = ceil(moment / every_s)
        # Rounding may make the quotient too large: 3 x 0.1 / 0.1 is above 3.
        return number * every_s if (number - 1) * every_s < moment else (number - 1) * every_s

    return look


class Arithmetic(Protocol):
    """An engine that knows when something happens next, and what."""

    @property
    def next_at(self) -> float: ...

    def due(self, now: float) -> list[Event]: ...

    def carry_out(self, actions: Sequence[Action], now: float) -> None: ...

    def fork(self) -> Self: ...


class Simulation:
    """A run that can be stepped, observed, stopped at a moment and forked there."""

    def __init__(
        self,
        scheduler: Scheduler,
        engine: Arithmetic,
        *,
        look: Look = exactly,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.begun = False
        self.scheduler = scheduler
        self.engine = engine
        self.now = 0.0
        self._look = look
        self.observers = tuple(observers)

    def run(self, until: float = inf) -> None:
        """Run until no event is left, or up to and including a moment."""
        scheduler, engine, look = self.scheduler, self.engine, self._look
        self.begun = True
        idle = 0
        while (now := look(min(engine.next_at, scheduler.wake_at))) <= until and now < inf:
            events = engine.due(now)
            actions = scheduler.step(events, now)
            engine.carry_out(actions, now)
            self.now = now
            for observe in self.observers:
                observe(now, events, actions, scheduler)
            idle = 0 if events or actions or engine.next_at < inf else idle + 1
            if idle > WAKES_MAX * len(scheduler.ranking.queue):
                break  # The policy keeps waking up and nothing changes.

    def observe(self, observer: Observer) -> None:
        """Add an observer."""
        self.observers = (*self.observers, observer)

    def fork(self, observers: Sequence[Observer] = ()) -> Self:
        """An independent copy from this moment on."""
        twin = type(self)(
            self.scheduler.fork(), self.engine.fork(), look=self._look, observers=observers
        )
        twin.now = self.now
        return twin
