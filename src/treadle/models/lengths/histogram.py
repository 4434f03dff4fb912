"""Lengths of many jobs in few numbers: counts in bins of equal ratio, of which old ones fade.

For kinds with many jobs, such as everything that a user runs. A bin is a sixteenth of a factor of
ten; the mean of its lengths is kept as well, so lengths that do not vary are exact.
"""

from dataclasses import dataclass, field
from math import floor, log10

from treadle.models.lengths.distribution import Lengths
from treadle.models.lengths.survival import Seen, kaplan_meier

PER_DECADE = 16
BIN_MIN, BIN_MAX = -3 * PER_DECADE, 8 * PER_DECADE - 1
_UNIT_MAX = 1e12  # weights are scaled down when the newest has grown to this


@dataclass(slots=True)
class Histogram:
    """Weights by bin, of jobs that ended and of jobs that were cut off there."""

    half_life: float  # jobs after which an older one counts half
    unit: float = 1.0  # the weight of the newest
    ended: dict[int, float] = field(default_factory=dict)
    cut_off: dict[int, float] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)  # weights times lengths, of the ended

    def add(self, seconds: float, *, whole: bool, weight: float = 1.0) -> None:
        at = bin_of(seconds)
        if not whole:
            # Only ends make others old, so that what was cut off shortens nothing.
            self.cut_off[at] = self.cut_off.get(at, 0.0) + weight * self.unit
            return
        self.unit *= 0.5 ** (-weight / self.half_life)
        self.ended[at] = self.ended.get(at, 0.0) + weight * self.unit
        self.seconds[at] = self.seconds.get(at, 0.0) + weight * self.unit * seconds
        if self.unit > _UNIT_MAX:
            self._scale_down()

    def copy(self) -> "Histogram":
        tables = self.ended.copy(), self.cut_off.copy(), self.seconds.copy()
        return Histogram(self.half_life, self.unit, *tables)

    @property
    def runs(self) -> float:
        """How many jobs that ended now these weights are worth."""
        return sum(self.ended.values()) / self.unit

    def lengths(self, doubt: float) -> Lengths | None:
        """The distribution; None if no job has ended."""
        unit = self.unit
        if not self.cut_off and self.ended:
            return self._of_ends(doubt)
        seen = [
            Seen(self.seconds[at] / mass, weight=mass / unit) for at, mass in self.ended.items()
        ]
        seen += [
            Seen(start_of(at), whole=False, weight=mass / unit) for at, mass in self.cut_off.items()
        ]
        return kaplan_meier(seen, doubt=doubt)

    def _of_ends(self, doubt: float) -> Lengths:
        """The same where nothing was cut off, which takes a third of the time."""
        seconds, runs = self.seconds, sum(self.ended.values())
        total = runs + doubt * self.unit
        points = tuple(
            (seconds[at] / self.ended[at], self.ended[at] / total) for at in sorted(self.ended)
        )
        return Lengths(points, 1.0 - runs / total, points[-1][0])

    def _scale_down(self) -> None:
        self.ended = self._scaled(self.ended)
        self.cut_off = self._scaled(self.cut_off)
        self.seconds = {at: self.seconds[at] / self.unit for at in self.ended}
        self.unit = 1.0

    def _scaled(self, table: dict[int, float]) -> dict[int, float]:
        scaled = {at: weight / self.unit for at, weight in table.items()}
        return {at: weight for at, weight in scaled.items() if weight > 1 / _UNIT_MAX}


def bin_of(seconds: float) -> int:
    if seconds <= 0:
        return BIN_MIN
    return min(BIN_MAX, max(BIN_MIN, floor(PER_DECADE * log10(seconds))))


def start_of(at: int) -> float:
    """The shortest length in a bin."""
    return float(10.0 ** (at / PER_DECADE))
