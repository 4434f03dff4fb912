"""What repeated measurements at one size come to, and how old ones fade.

`Smoothed` suits speeds that a job reports while it runs: they hardly vary, and a change is real.
`Newest` suits lengths of whole jobs: they vary from one job to the next, and one odd run must not
move the estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Repeats(Protocol):
    """Measurements at one size, the newest last."""

    def with_new(self, known: list[float], seconds: float) -> list[float]:
        """What to keep from now on; `known` itself if the new measurement says nothing new."""
        ...

    def estimate(self, known: Sequence[float]) -> float:
        """The value that they stand for."""
        ...


@dataclass(frozen=True, slots=True)
class Smoothed:
    """Keep one value: average small differences, replace it after a large one."""

    drift: float = 0.15  # a measurement that is further off is a change and not noise

    def with_new(self, known: list[float], seconds: float) -> list[float]:
        if not known:
            return [seconds]
        last = known[-1]
        if last == seconds:
            return known
        noise = abs(seconds - last) <= self.drift * last
        return [(last + seconds) / 2.0 if noise else seconds]

    def estimate(self, known: Sequence[float]) -> float:
        return known[-1]


@dataclass(frozen=True, slots=True)
class Newest:
    """Keep the newest measurements and take their median."""

    count: int = 16

    def with_new(self, known: list[float], seconds: float) -> list[float]:
        return [*known, seconds][-self.count :]

    def estimate(self, known: Sequence[float]) -> float:
        return _median(known)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2.0
