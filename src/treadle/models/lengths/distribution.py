"""A distribution of seconds.

It has points with masses, and a tail for what is longer than everything seen. The tail falls as a
power: a job that has outlived everything like it is expected to run for about as long again, and
the longer it has run, the longer. The distribution of the seconds that remain at some age is of the
same form, so conditioning on an age twice is the same as conditioning on the sum once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import exp, inf
from typing import NamedTuple

TAIL_POWER = 1.5  # survival beyond the longest seen falls with this power of time; its mean is 3 x
SHORT_SHARES = (0.05, 0.15, 0.3, 0.5)  # of what a range leaves out, so much may be below it
NARROWEST = 0.8  # the coverage at which the narrowest range is looked for
MIXED_TAIL = 1e-3  # beyond everything in a mixture
OUTLIVED = 0.1  # of jobs like it, so few ran longer
NEARLY_ONE = 1.0 + 1e-9
NEARLY = 1.0 - 1e-9  # of a share: sums of equal masses must not be one or not by rounding alone
LENGTH_MIN_S = 1e-3
WIDE = 20.0  # a range whose upper end is more times its lower one says less than "unknown",
SOON_S = 3.0  # but a minute is never too wide
LENGTH_MAX_S = 1e8  # three years; nothing is expected to take longer


class Span(NamedTuple):
    """A range of seconds that holds the true value with a stated probability."""

    low_s: float
    high_s: float
    coverage: float


def as_shown(low_s: float, high_s: float, *, age_s: float = 0.0) -> tuple[float, float] | None:
    """The ends of a range as people are shown them; None: they say too little.

    age_s: since when that lasts of which these are the rest. After nine hours, an hour more or none
    says much.
    """
    if age_s + high_s > WIDE * max(SOON_S, age_s + low_s) * NEARLY_ONE:
        return None
    return max(low_s, high_s / WIDE), high_s


# Seconds, and how much of the mass lies there. Plain tuples: they are made by the hundred for every
# forecast, and named ones take five times as long.
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Points by ascending seconds, and the mass beyond `longest_s`; all masses make 1."""

    points: tuple[Point, ...]
    tail: float = 0.0  # mass that is longer than longest_s
    longest_s: float = 0.0
    spent_s: float = 0.0  # seconds already taken off: the tail began this much earlier
    # Masses up to each point; made when first asked for, as many distributions are only mixed.
    _summed: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert self.points or self.tail > 0, "a distribution has mass somewhere"

    @classmethod
    def of(cls, points: Iterable[tuple[float, float]], *, tail: float = 0.0) -> "Lengths":
        """From (seconds, weight) in any order; `tail`: the weight beyond the longest of them."""
        merged: dict[float, float] = {}
        for seconds, weight in points:
            if weight > 0:
                at = min(max(seconds, LENGTH_MIN_S), LENGTH_MAX_S)
                merged[at] = merged.get(at, 0.0) + weight
        total = sum(merged.values()) + tail
        ordered = tuple((at, merged[at] / total) for at in sorted(merged))
        longest_s = ordered[-1][0] if ordered else LENGTH_MIN_S
        return cls(ordered, tail / total, longest_s)

    @classmethod
    def exactly(cls, seconds: float) -> "Lengths":
        return cls.of(((seconds, 1.0),))

    def mean(self) -> float:
        mean = sum(seconds * mass for seconds, mass in self.points)
        if self.tail:
            # E[T | T > longest] = longest * power / (power - 1), less what is already spent.
            mean += self.tail * (self._tail_from_s * TAIL_POWER / (TAIL_POWER - 1) - self.spent_s)
        return mean

    def survival(self, seconds: float) -> float:
        """The probability that it takes longer than this."""
        if seconds < 0:
            return 1.0
        gone = bisect_right(self.points, (seconds, inf))
        left = 1.0 - self.tail - (self._masses[gone - 1] if gone else 0.0)
        return min(1.0, max(0.0, left) + self._tail_at(seconds))

    def quantile(self, share: float) -> float:
        """The seconds within which so large a share of jobs ends."""
        assert 0 <= share <= 1, "a share is between 0 and 1"
        at = bisect_left(self._masses, share - 1e-12)
        if at < len(self.points):
            return min(LENGTH_MAX_S, self.points[at][0])
        left = max(1.0 - share, 0.0)
        if not self.tail:
            return min(LENGTH_MAX_S, self.points[-1][0])
        if left <= 0:
            return LENGTH_MAX_S
        beyond = self._tail_from_s * float((self.tail / min(left, self.tail)) ** (1 / TAIL_POWER))
        return min(LENGTH_MAX_S, max(0.0, beyond - self.spent_s))

    def given(self, age_s: float) -> "Lengths":
        """The seconds that remain of a job that has run for so long."""
        if age_s <= 0:
            return self
        kept = [(at - age_s, mass) for at, mass in self.points if at > age_s]
        tail = self._tail_at(age_s)
        total = sum(mass for _, mass in kept) + tail
        if total <= 1e-12:
            # No mass was allowed beyond this age, and yet it runs: as long again, roughly.
            return Lengths((), 1.0, age_s + self.spent_s, age_s + self.spent_s)
        points = tuple((at, mass / total) for at, mass in kept)
        longest_s = max(self.longest_s, self.spent_s + age_s)
        return Lengths(points, tail / total, longest_s, self.spent_s + age_s)

    def after(self, age_s: float) -> "Lengths":
        """What is left of a job of this age, where the distribution is made of a few runs.

        One that has outlived nearly all of its like is another sort of job: what little was seen
        beyond its age says nothing, and it is expected to run for about as long again.
        """
        if age_s > 0 and not self.spent_s and self.survival(age_s) < OUTLIVED:
            return Lengths((), 1.0, age_s, age_s)
        return self.given(age_s)

    def cut(self, limit_s: float) -> "Lengths":
        """The same where everything ends at a time limit at the latest."""
        limit_s = max(limit_s, 0.0)
        kept = [(at, mass) for at, mass in self.points if at < limit_s]
        start_s, end_s = self._tail_from_s, limit_s + self.spent_s
        within = self.tail - self._tail_at(limit_s)
        if within > 1e-12:
            # The part of the tail that ends before the limit, at its mean.
            share = float((start_s / end_s) ** TAIL_POWER)
            moment_s = self.tail * (start_s - end_s * share) * TAIL_POWER / (TAIL_POWER - 1)
            kept.append((min(limit_s, moment_s / within - self.spent_s), within))
        rest = max(0.0, 1.0 - sum(mass for _, mass in kept))
        return Lengths.of((*kept, (limit_s, max(rest, 1e-12))))

    def within(self, low_s: float, high_s: float) -> "Lengths":
        """The same where what is shorter or longer than this lies at its ends."""
        points = [(min(max(at, low_s), high_s), mass) for at, mass in self.points]
        return Lengths.of((*points, (high_s, self.tail)))

    def scaled(self, factor: float) -> "Lengths":
        """The same jobs where everything takes so many times as long."""
        points = tuple((at * factor, mass) for at, mass in self.points)
        return Lengths(points, self.tail, self.longest_s * factor, self.spent_s * factor)

    def blurred(self, window: float) -> "Lengths":
        """The same with every point spread over so many powers of e to both sides."""
        apart = exp(window)
        points: list[Point] = []
        for at, mass in self.points:
            sixth = mass / 6
            points += (
                (max(LENGTH_MIN_S, at / apart), sixth),
                (at, 4 * sixth),
                (min(LENGTH_MAX_S, at * apart), sixth),
            )
        points.sort()
        longest_s = max(self.longest_s, points[-1][0]) if points else self.longest_s
        return Lengths(tuple(points), self.tail, longest_s)

    def thinned(self, count: int) -> "Lengths":
        """The same with at most so many points: neighbours are put together at their mean."""
        if len(self.points) <= count:
            return self
        share = (1.0 - self.tail) / count * NEARLY
        found: list[Point] = []
        mass = moment = 0.0
        for seconds, each in self.points:
            mass, moment = mass + each, moment + each * seconds
            if mass >= share:
                found.append((moment / mass, mass))
                mass = moment = 0.0
        if mass > 0:
            found.append((moment / mass, mass))
        return Lengths(tuple(found), self.tail, self.longest_s, self.spent_s)

    def span(self, coverage: float = 0.8) -> Span:
        """Almost the narrowest range with so much of the mass.

        Lengths are skewed, so the narrowest leaves out more above than below. How much of what is
        left out is below is chosen once for each distribution: larger ranges hold smaller ones.
        """
        _, below = min((self._width_s(share), share) for share in SHORT_SHARES)
        low_s, high_s = self._between(coverage, below)
        return Span(low_s, high_s, coverage)

    def _width_s(self, below: float) -> float:
        low_s, high_s = self._between(NARROWEST, below)
        return high_s - low_s

    def _between(self, coverage: float, below: float) -> tuple[float, float]:
        out = 1.0 - coverage
        return self.quantile(out * below), self.quantile(1.0 - out * (1.0 - below))

    @property
    def _masses(self) -> list[float]:
        if not self._summed:
            self._summed.extend(accumulate([mass for _, mass in self.points]))
        return self._summed

    @property
    def _tail_from_s(self) -> float:
        """Where the tail begins, counted from the start of the job."""
        return max(self.longest_s, self.spent_s)

    def _tail_at(self, seconds: float) -> float:
        start = self._tail_from_s
        at = seconds + self.spent_s
        if not self.tail or at <= start:
            return self.tail
        return 0.0 if at == inf else float(self.tail * (start / at) ** TAIL_POWER)


def mixture(parts: Iterable[tuple[Lengths, float]]) -> Lengths:
    """Several distributions with weights; they must be of whole lengths, not of remaining ones."""
    points: list[Point] = []
    for lengths, weight in parts:
        assert not lengths.spent_s, "a mixture is of whole lengths"
        points += [(at, mass * weight) for at, mass in lengths.points]
        points += tail_points(lengths, weight)
    points.sort()
    return mixed(points)


def tail_points(lengths: Lengths, weight: float = 1.0) -> list[Point]:
    """The tail as points at its quantiles: in a mixture, one tail cannot begin at many places."""
    if not lengths.tail:
        return []
    mass = lengths.tail * weight / len(_TAIL_FACTORS)
    return [(min(LENGTH_MAX_S, lengths.longest_s * one), mass) for one in _TAIL_FACTORS]


def mixed(points: Sequence[Point], *, longest_s: float | None = None) -> Lengths:
    """A mixture of ascending points with weights of any sum; longest_s: of those put together."""
    total = sum([mass for _, mass in points]) * (1.0 + MIXED_TAIL)
    scaled = tuple([(at, mass / total) for at, mass in points if mass > 0])
    longest_s = scaled[-1][0] if longest_s is None else longest_s
    return Lengths(scaled, MIXED_TAIL / (1.0 + MIXED_TAIL), longest_s)


# Where a tail's quantiles 1/10, 3/10 ... 9/10 lie, in multiples of its start.
_TAIL_FACTORS = tuple((1.0 / (0.9 - 0.2 * step)) ** (1 / TAIL_POWER) for step in range(5))
