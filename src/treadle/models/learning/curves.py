"""Seconds of one unit of work by size, also at sizes that were not measured.

`FittedCurve`. One measured size is continued with a serial share of a tenth, which is more
cautious than six of the nine models of CoDDL's evaluation call for. From two sizes on, the time is
fitted by A / n + B, neither below 0, to the squares of relative errors. What was measured holds at
its size. Between measured sizes the fit's error there is interpolated, and beyond them it is that
of the nearest, so the curve has no steps. Nothing outside the measured sizes is better than linear:
no larger size gains more than its devices, no smaller one loses more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from treadle.models.fitted import Point, non_negative_least_squares
from treadle.models.scaling import interpolate

SERIAL = 0.1  # share of the work that more devices do not speed up, where one size was measured


@dataclass(frozen=True, slots=True)
class FittedCurve:
    """A / n + B, corrected so that it goes through what was measured."""

    points: tuple[Point, ...]  # by ascending size
    terms: tuple[float, float]  # A and B
    errors: tuple[Point, ...]  # measured over fitted, by ascending size

    @classmethod
    def through(cls, points: tuple[Point, ...]) -> "FittedCurve":
        terms = _fit(points)
        errors = tuple((size, seconds / _fitted(terms, size)) for size, seconds in points)
        return cls(points, terms, errors)

    @property
    def measured(self) -> tuple[int, ...]:
        """The sizes that were measured, ascending."""
        return tuple(size for size, _ in self.points)

    def seconds(self, size: int) -> float:
        """One unit of work on so many devices."""
        return _fitted(self.terms, size) * interpolate(self.errors, size)

    def carried(self, sizes: Iterable[int]) -> tuple[Point, ...]:
        """The curve as a job's profile holds it, for a job that may run at these sizes.

        Profiles are read by `models.scaling.interpolate`, on straight lines between points.
        """
        known = dict(self.points)
        return tuple(
            (size, known[size] if size in known else self.seconds(size))
            for size in sorted({*known, *sizes})
        )


def _fit(points: Sequence[Point]) -> tuple[float, float]:
    """A and B of A / n + B; of a single point by the serial share that is assumed."""
    if len(points) == 1:
        return (1.0 - SERIAL, SERIAL)
    rows = [[1.0 / (size * seconds), 1.0 / seconds] for size, seconds in points]
    shared, fixed = non_negative_least_squares(rows, [1.0] * len(rows))
    return (shared, fixed)


def _fitted(terms: tuple[float, float], size: int) -> float:
    shared, fixed = terms
    return shared / size + fixed
