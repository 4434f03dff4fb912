"""What was measured of one job by size: the newest measurements, and their median.

Measurements vary from one to the next, and one odd run must not move the estimate.
"""

from collections.abc import Sequence

from treadle.models.fitted import Point
from treadle.models.learning.curves import FittedCurve

REPEATS_MAX = 16  # measurements at one size
SIZES_MAX = 64


class Speeds:
    """Seconds of one unit of work, by size."""

    def __init__(self) -> None:
        self.by_size: dict[int, list[float]] = {}  # the size that changed last stands last
        self._curve: FittedCurve | None = None  # of what is measured; None until asked for

    def add(self, size: int, seconds: float) -> None:
        """Take a measurement in."""
        put(self.by_size, size, seconds)
        self._curve = None

    @property
    def curve(self) -> FittedCurve:
        """What follows for all sizes; something must have been measured."""
        if self._curve is None:
            self._curve = FittedCurve.through(points(self.by_size))
        return self._curve

    def seconds(self, size: int) -> float:
        """One unit of work on so many devices, of a job that asks for as many."""
        return self.curve.seconds(size)


def put(table: dict[int, list[float]], size: int, seconds: float) -> None:
    """Add a measurement; the oldest of its size, and the size that changed longest ago, go."""
    table[size] = [*table.pop(size, []), seconds][-REPEATS_MAX:]
    while len(table) > SIZES_MAX:
        del table[next(iter(table))]


def points(table: dict[int, list[float]]) -> tuple[Point, ...]:
    """The median at each measured size, by ascending size."""
    return tuple((size, median(table[size])) for size in sorted(table))


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2.0
