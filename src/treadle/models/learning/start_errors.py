"""How far off simulated starts were, so that printed ranges of starts hold what they promise.

Simulations of the queue leave things out: jobs that arrive later and go first, lengths that are
learned meanwhile, restarts; and where little is known of lengths, they are far apart. So the first
forecast of each waiting job is kept until it starts. Waits are then expected on a line through
what was simulated and what happened, both in powers of e: where simulations say nothing it is flat,
and the waits of before are all that is known. A range spans what lies between two quantiles of the
distances from that line, of which those of jobs with much the same forecast count most: about the
narrowest that holds its share. As for lengths, a range that is missed makes later ones span a
larger share, and one that holds a smaller one (Gibbs and Candes, NeurIPS 2021).

Jobs come in batches, and those of a batch wait for the same jobs to end: all of them are early, or
all late. So n forecasts with no start between them count as the square root of n. And a batch that
is late teaches before it starts: a job that waits beyond its range counts as if it started now.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from math import exp, log, sqrt
from typing import NamedTuple

PROMISED = 0.8
AIM = 0.84  # a little more than is promised, as what is compared now was printed earlier
STEP = 0.05
SHARE_MIN, SHARE_MAX = 0.7, 0.985
COMPARED_MIN = 10  # starts that count fully, before ranges are corrected
SEEN_MAX = 500  # the latest count: a queue changes with its jobs
OPEN_MAX = 10_000
OWN_WEIGHT = 3.0  # starts: what the simulations of a job themselves count for
TRUSTED = 20.0  # starts, in as many squares of e: so much is needed until the line is not 1 to 1
ALIKE = 0.5  # in powers of e: forecasts that are no farther apart count nearly alike,
UNLIKE_WEIGHT = 0.1  # and those that are, so much
MOMENT_S = 1.0  # a start that is off by less than this is not off
# Of what a range leaves out, so much may be below it; of equal ranges, the one in the middle.
BELOW = tuple(sorted((part / 20 for part in range(21)), key=lambda below: abs(below - 0.5)))
POWER_MAX = 20.0

Weighted = tuple[float, float]


class Range(NamedTuple):
    """Between how many seconds from now."""

    low_s: float
    high_s: float


class Seen(NamedTuple):
    """A job that started, in powers of e."""

    simulated: float  # the middle of its simulations
    waited: float
    weight: float = 1.0  # what it counts for


class Kept(NamedTuple):
    """What was learned, as it is stored."""

    seen: tuple[Seen, ...] = ()
    share: float = AIM


@dataclass(slots=True)
class _Batch:
    """Forecasts that were made with no start between them."""

    forecasts: int = 0

    @property
    def weight(self) -> float:
        """What each of them counts for."""
        return 1.0 / sqrt(self.forecasts)


class _Open(NamedTuple):
    """A job that waits, and what was first said of its start."""

    since: float
    simulated: float
    said: Range
    batch: _Batch

    def seen(self, now: float) -> Seen:
        """The same if it starts now."""
        return Seen(self.simulated, _power(max(0.0, now - self.since)), self.batch.weight)


class StartErrors:
    """Forecasts of starts that are open, and the errors of those that are not."""

    def __init__(self, kept: Kept | None = None) -> None:
        kept = kept or Kept()
        self._seen = list(kept.seen[-SEEN_MAX:])
        self._share = min(SHARE_MAX, max(SHARE_MIN, kept.share))
        self._open: dict[str, _Open] = {}
        self._batch = _Batch()  # the latest
        self._due: list[tuple[float, str]] = []  # when ranges are over
        self._missed: dict[str, None] = {}  # open jobs whose range is over, in that order

    @property
    def compared(self) -> int:
        """How many starts correct a range; 0: too few for that."""
        weight = sum(seen.weight for seen in self._seen)
        return len(self._seen) if weight > COMPARED_MIN - 0.5 else 0

    @property
    def kept(self) -> Kept:
        return Kept(tuple(self._seen), self._share)

    def range_of(self, simulated: Sequence[float], *, now: float) -> Range:
        """The range to show of a start that simulations put in so many seconds."""
        self.advance(now)
        if not self.compared:
            return as_simulated(simulated)
        late = list(self._missed)[-SEEN_MAX:]
        known = [*self._seen, *(self._open[job].seen(now) for job in late)]
        here, line = _middle(simulated), _Line.through(known)
        centre = line.at(here)
        own = OWN_WEIGHT / len(simulated)
        off = [(_power(each) - centre, own) for each in simulated]
        for seen in known:
            apart = (seen.simulated - here) / ALIKE
            alike = UNLIKE_WEIGHT + (1.0 - UNLIKE_WEIGHT) * exp(-0.5 * apart * apart)
            off.append((seen.waited - line.at(seen.simulated), seen.weight * alike))
        errors = _Ordered(sorted(off))
        found = [errors.between(self._share, below) for below in BELOW]
        ranges = [Range(*(_seconds(centre + end) for end in each)) for each in found]
        return min(ranges, key=lambda each: each.high_s - each.low_s)

    def promise(self, job: str, simulated: Sequence[float], *, now: float) -> None:
        """A range of this job is shown; of a job that has one already, the first counts."""
        if job in self._open or len(self._open) >= OPEN_MAX:
            return
        said = self.range_of(simulated, now=now)
        self._batch.forecasts += 1
        self._open[job] = _Open(now, _middle(simulated), said, self._batch)
        heappush(self._due, (now + said.high_s + MOMENT_S, job))

    def started(self, job: str, *, now: float) -> bool:
        """Compare the start of a job with what was said of it; whether anything was."""
        self.advance(now)
        known = self._open.pop(job, None)
        if known is None:
            return False
        self._batch = _Batch()
        self._seen.append(known.seen(now))
        del self._seen[:-SEEN_MAX]
        if job in self._missed:
            del self._missed[job]
        else:
            self._count(known.batch, held=known.said.low_s - MOMENT_S <= now - known.since)
        return True

    def forget(self, jobs: Iterable[str]) -> None:
        """These jobs will not start any more."""
        for job in jobs:
            self._open.pop(job, None)
            self._missed.pop(job, None)

    def advance(self, now: float) -> None:
        """Count the ranges that are over: to wait for these starts would be to hear of early ones
        first."""
        while self._due and self._due[0][0] < now:
            _, job = heappop(self._due)
            if job in self._open and job not in self._missed:
                self._missed[job] = None
                self._count(self._open[job].batch, held=False)

    def _count(self, batch: _Batch, *, held: bool) -> None:
        share = self._share + STEP * batch.weight * ((0.0 if held else 1.0) - (1.0 - AIM))
        self._share = min(SHARE_MAX, max(SHARE_MIN, share))


class _Line(NamedTuple):
    """What is expected of a wait, by what was simulated."""

    simulated: float  # the means
    waited: float
    slope: float

    @classmethod
    def through(cls, seen: Sequence[Seen]) -> "_Line":
        """By least squares, as if some more starts had been as simulated."""
        weight = sum(each.weight for each in seen)
        mean = sum(each.weight * each.simulated for each in seen) / weight
        waited = sum(each.weight * each.waited for each in seen) / weight
        apart = sum(each.weight * (each.simulated - mean) ** 2 for each in seen)
        together = sum(
            each.weight * (each.simulated - mean) * (each.waited - waited) for each in seen
        )
        slope = (together + TRUSTED) / (apart + TRUSTED)
        return cls(mean, waited, min(1.0, max(0.0, slope)))

    def at(self, simulated: float) -> float:
        return self.waited + self.slope * (simulated - self.simulated)


def as_simulated(moments: Sequence[float]) -> Range:
    """The range without any correction: the earliest and the latest tenth are left out."""
    return _Ordered([(seconds, 1.0) for seconds in sorted(moments)]).between(PROMISED, 0.5)


def _middle(moments: Sequence[float]) -> float:
    return quantile([(_power(seconds), 1.0) for seconds in sorted(moments)], 0.5)


def _power(seconds: float) -> float:
    return log(seconds + MOMENT_S)


def _seconds(power: float) -> float:
    return max(0.0, exp(min(power, POWER_MAX)) - MOMENT_S)


def quantile(ordered: Sequence[Weighted], share: float) -> float:
    """Of ascending values with weights, on the straight line between the two around it."""
    return _Ordered(ordered).quantile(share)


class _Ordered:
    """Ascending values, each in the middle of its weight."""

    def __init__(self, ordered: Sequence[Weighted]) -> None:
        ends = list(accumulate(weight for _, weight in ordered))
        self._values = [value for value, _ in ordered]
        self._at = [end - weight / 2.0 for end, (_, weight) in zip(ends, ordered, strict=True)]
        self._whole = ends[-1]

    def quantile(self, share: float) -> float:
        values, at, wanted = self._values, self._at, share * self._whole
        place = bisect_left(at, wanted)
        if place == 0 or place == len(at):
            return values[min(place, len(at) - 1)]
        passed = (wanted - at[place - 1]) / (at[place] - at[place - 1])
        return values[place - 1] + passed * (values[place] - values[place - 1])

    def between(self, share: float, below: float) -> Range:
        """Of what is outside of the share, a part `below` is below it."""
        out = 1.0 - share
        return Range(self.quantile(out * below), self.quantile(1.0 - out * (1.0 - below)))
