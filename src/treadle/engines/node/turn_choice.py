"""Whether jobs that share devices do better with turns: tried for a few seconds, then kept.

Sharing freely is often as good as taking turns, and which is better depends on the jobs, the device
and its driver. So both are tried in short windows, one after the other and again, and turns are
taken only if they were clearly better. Pure: times and counts come from the caller.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from treadle.engines.node.turns import Way

SETTLE_S = 0.5  # at the beginning of a window, not counted
WINDOW_S = 3.0
WINDOWS = (Way.FREE, Way.TURNS, Way.FREE, Way.TURNS)
BETTER = 1.02  # turns must get at least so much more done
AGAIN_S = 120.0  # until the next trial: jobs change
AGAIN_S_MAX = 3600.0  # each trial in which turns were no better doubles the pause


@dataclass(slots=True)
class Choice:
    """The trial of one group of jobs, and its result."""

    began: float
    way: Way = Way.FREE
    ratio: float | None = None  # of speeds with turns over those without, mean; None: not tried yet
    _again_s: float = AGAIN_S
    _window: int = 0
    _counted: float | None = None  # since when steps of this window are counted
    _steps: dict[str, float] = field(default_factory=dict)  # at that moment
    _rates: dict[tuple[str, Way], list[float]] = field(default_factory=dict)

    @property
    def trying(self) -> bool:
        return self._window < len(WINDOWS)

    def next_at(self) -> float:
        """When `look` has something to do."""
        if not self.trying:
            return self.began + self._again_s
        return self.began + (SETTLE_S if self._counted is None else WINDOW_S)

    def look(self, steps: Mapping[str, float], now: float) -> Way:
        """The way from now on; steps: how many each job has done since it came."""
        if now < self.next_at():
            return self.way
        if not self.trying:
            self._restart(now)
        elif self._counted is None:
            self._counted, self._steps = now, dict(steps)
        else:
            self._count(steps, now)
            self._window += 1
            self.began, self._counted = now, None
            self.way = WINDOWS[self._window] if self.trying else self._decided()
        return self.way

    def _restart(self, now: float) -> None:
        self.began, self.way, self._window, self._counted = now, WINDOWS[0], 0, None
        self._rates.clear()

    def _count(self, steps: Mapping[str, float], now: float) -> None:
        assert self._counted is not None
        for job, done in steps.items():
            if job in self._steps:
                rate = (done - self._steps[job]) / (now - self._counted)
                self._rates.setdefault((job, self.way), []).append(rate)

    def _decided(self) -> Way:
        """Jobs that made no step in some window say nothing."""
        ratios = []
        for job in {job for job, _ in self._rates}:
            free, turns = (self._rates.get((job, way), []) for way in (Way.FREE, Way.TURNS))
            if free and turns and min(*free, *turns) > 0:
                ratios.append(sum(turns) / len(turns) / (sum(free) / len(free)))
        self.ratio = sum(ratios) / len(ratios) if ratios else None
        better = self.ratio is not None and self.ratio > BETTER
        self._again_s = AGAIN_S if better else min(AGAIN_S_MAX, 2 * self._again_s)
        return Way.TURNS if better else Way.FREE
