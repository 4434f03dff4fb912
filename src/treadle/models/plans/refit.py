"""Refit plan models from the observed speeds of running jobs.

Every running job is a free measurement. For each model type the latest observation of each
configuration is kept, up to a limit, together with the runs of its profile. The type is refitted
when the recent prediction error exceeds a threshold and there are enough configurations to
determine the factors. The next refit waits for as many new observations, so that a model that
cannot be fitted costs little.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from treadle.core.errors import InvalidInputError
from treadle.core.plan import Plan
from treadle.models.plans.fit import SEVEN, Fit, Run, fit, relative_error
from treadle.models.plans.iteration_time import ModelType, Shape

Configuration = tuple[Plan, Shape, float]


@dataclass
class _Seen:
    """The observations of one model type."""

    profile: tuple[Run, ...]
    runs: dict[Configuration, Run] = field(default_factory=dict)  # oldest first
    errors: deque[float] = field(default_factory=deque)
    since_fit: int = 0


class Refitting:
    """Model types that are refitted when their predictions are wrong."""

    def __init__(
        self,
        types: Mapping[str, ModelType],
        *,
        profiles: Mapping[str, Sequence[Run]] | None = None,
        threshold: float = 0.1,
        window: int = 8,
        runs_max: int = 64,
    ) -> None:
        if not (threshold > 0 and window >= 1 and runs_max >= len(SEVEN)):
            raise InvalidInputError(
                f"a threshold of {threshold:g} over {window} of {runs_max} runs; expected more "
                f"than 0 over at least 1 of at least {len(SEVEN)}"
            )
        self.types: dict[str, ModelType] = dict(types)
        self.threshold, self.window, self.runs_max = threshold, window, runs_max
        given = profiles or {}
        self._seen = {name: _Seen(tuple(given.get(name, ()))) for name in types}

    def add(self, name: str, model: ModelType) -> None:
        """Another type, or another idea of a known one before it was observed."""
        self.types[name] = model
        self._seen[name] = _Seen(())

    def error(self, name: str) -> float:
        """Mean relative error of the type's recent predictions; 0 without observations."""
        errors = self._seen[name].errors
        return fmean(errors) if errors else 0.0

    def observe(self, name: str, run: Run) -> Fit | None:
        """Record a measurement; returns the new fit if this triggered one."""
        seen = self._seen[name]
        key = (run.plan, run.shape, run.cores)
        seen.runs.pop(key, None)
        seen.runs[key] = run
        if len(seen.runs) > self.runs_max:
            del seen.runs[next(iter(seen.runs))]
        seen.errors.append(relative_error(self.types[name], run))
        if len(seen.errors) > self.window:
            seen.errors.popleft()
        seen.since_fit += 1
        if not self._due(seen):
            return None
        return self._fit(name, seen)

    def _due(self, seen: _Seen) -> bool:
        known = len(seen.profile) + len(seen.runs)
        if known < len(SEVEN) or seen.since_fit < self.window:
            return False
        return fmean(seen.errors) > self.threshold

    def _fit(self, name: str, seen: _Seen) -> Fit:
        """Refit the type to its profile and observations, and drop the old errors."""
        found = fit(self.types[name], [*seen.profile, *seen.runs.values()])
        self.types[name] = found.model
        seen.errors.clear()
        seen.since_fit = 0
        return found
