"""Refit plan models from the observed speeds of running jobs.

Every running job is a free measurement. For each model type the latest observation of each
configuration is kept, up to a limit. The type is refitted when the recent prediction error exceeds
a threshold and there are enough configurations to determine the factors. The next refit waits for
as many new observations, so that a model that cannot be fitted costs little.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

from treadle.core.plan import Plan
from treadle.models.plans.fit import SEVEN, Fit, Run, fit, relative_error
from treadle.models.plans.iteration_time import ModelType, Shape

Configuration = tuple[Plan, Shape, float]

THRESHOLD = 0.1  # of the mean relative error
WINDOW = 8  # observations over which it is taken
RUNS_MAX = 64


@dataclass
class _Seen:
    """The observations of one model type."""

    runs: dict[Configuration, Run] = field(default_factory=dict)  # oldest first
    errors: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    since_fit: int = 0


class Refitting:
    """Model types that are refitted when their predictions are wrong."""

    def __init__(self, types: Mapping[str, ModelType]) -> None:
        self.types: dict[str, ModelType] = dict(types)
        self._seen = {name: _Seen() for name in types}

    def add(self, name: str, model: ModelType) -> None:
        """Another type, or another idea of a known one before it was observed."""
        self.types[name] = model
        self._seen[name] = _Seen()

    def observe(self, name: str, run: Run) -> Fit | None:
        """Record a measurement; returns the new fit if this triggered one."""
        seen = self._seen[name]
        key = (run.plan, run.shape, run.cores)
        seen.runs.pop(key, None)
        seen.runs[key] = run
        if len(seen.runs) > RUNS_MAX:
            del seen.runs[next(iter(seen.runs))]
        seen.errors.append(relative_error(self.types[name], run))
        seen.since_fit += 1
        if not self._due(seen):
            return None
        return self._fit(name, seen)

    def _due(self, seen: _Seen) -> bool:
        if len(seen.runs) < len(SEVEN) or seen.since_fit < WINDOW:
            return False
        return fmean(seen.errors) > THRESHOLD

    def _fit(self, name: str, seen: _Seen) -> Fit:
        """Refit the type to its observations, and drop the old errors."""
        found = fit(self.types[name], list(seen.runs.values()))
        self.types[name] = found.model
        seen.errors.clear()
        seen.since_fit = 0
        return found
