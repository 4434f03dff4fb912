"""Whether printed ranges hold what they promise, and by how much to widen or narrow them.

A range from a few runs is too narrow, and jobs change from day to day. So every outcome is compared
with the range that was made for it before any correction. The correction moves each end of later
ranges, in logarithms, towards where it had to be to leave out as many as promised: the quantile of
the misses, followed by steps (the gradient of the pinball loss; the idea is Gibbs and Candes',
NeurIPS 2021). What was printed long ago for a burst of jobs that are alike may fail all at once, so
the share of ranges that held as they were printed is followed as well: while it is below the
promise, the aim is above it. Nothing is assumed of the jobs: on any sequence the correction moves
until the promise holds.

Ranges leave out fewer jobs below than above (`SHORT_SHARE`): lengths are skewed, and so the range
with one tenth on each side is about twice as wide in seconds.
"""

from math import exp, log
from typing import NamedTuple

from treadle.models.lengths.distribution import LENGTH_MIN_S, SHORT_SHARE, Span

PROMISE = 0.82  # a little more than is promised, as what ends now was printed earlier
AIM_STEP = 0.03  # how much one range that was missed, or held, moves the aim
AIM_MAX = 0.99
STEP = 0.2  # of the first corrections
STEP_MIN = 0.1
WIDEN_FIRST = 0.1  # before anything was compared: 10 % on both sides
WIDEN_MAX = 6.0
# Ranges are compared at the start and at these ages, each with a correction of its own: a job that
# has outlived most like it is another matter.
AGES_S = (60.0, 600.0, 3600.0, 36_000.0)


def stage(age_s: float) -> int:
    """Which of the corrections is for a job of this age."""
    return sum(age_s >= age for age in AGES_S)


class Made(NamedTuple):
    """A range that was made for a job: as it came out, and as it was printed."""

    stage: int
    base: Span
    printed: Span


class Correction(NamedTuple):
    """By which power of e each end of a range moves outwards, and how many were compared."""

    low: float = WIDEN_FIRST
    high: float = WIDEN_FIRST
    aim: float = PROMISE
    compared: int = 0

    def after(self, made: Made, seconds: float) -> "Correction":
        """The correction after one more outcome."""
        step = max(STEP_MIN, STEP / (1.0 + self.compared / 20.0))
        at = _log(seconds)
        missed_low = _log(made.base.low_s) - at > self.low
        missed_high = at - _log(made.base.high_s) > self.high
        out = 1.0 - self.aim
        low = self.low + step * (missed_low - out * SHORT_SHARE)
        high = self.high + step * (missed_high - out * (1.0 - SHORT_SHARE))
        missed = not made.printed.low_s <= seconds <= made.printed.high_s
        aim = self.aim + AIM_STEP * (missed - (1.0 - PROMISE))
        aim = min(AIM_MAX, max(PROMISE, aim))
        return Correction(_bounded(low), _bounded(high), aim, self.compared + 1)

    def applied(self, span: Span) -> Span:
        """The range that is printed."""
        low_s, high_s = span.low_s * exp(-self.low), span.high_s * exp(self.high)
        if low_s > high_s:
            low_s = high_s = exp(0.5 * (_log(low_s) + _log(high_s)))
        return Span(low_s, high_s, span.coverage)


def _log(seconds: float) -> float:
    return log(max(seconds, LENGTH_MIN_S))


def _bounded(widen: float) -> float:
    return min(WIDEN_MAX, max(-WIDEN_MAX, widen))
