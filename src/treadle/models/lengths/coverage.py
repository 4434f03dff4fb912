"""Whether printed ranges hold what they promise, and by how much to widen or narrow them.

A range from a few runs is too narrow, and jobs change from day to day. So every outcome is compared
with the range that was printed for it before any correction. Its score says by what factor the
range had to be wider on both sides, in logarithms, to hold it; below 0, how much narrower it could
have been. The correction follows the quantile of the scores that the promise asks for (online
gradient of the pinball loss; Gibbs and Candes, NeurIPS 2021, is the idea). One number of state and
no assumption on the jobs: on any sequence it moves until the promise holds.
"""

from math import exp, log
from typing import NamedTuple

from treadle.models.lengths.distribution import LENGTH_MIN_S, Span

AIM = 0.83  # a little above the 80 % that are promised, because what ends now was printed earlier
STEP = 0.15  # of the first corrections
STEP_MIN = 0.05
WIDEN_FIRST = 0.1  # before anything was compared: 10 % on both sides
WIDEN_MAX = 6.0


class Correction(NamedTuple):
    """By which power of e a range is made wider on both sides, and how often it was compared."""

    widen: float = WIDEN_FIRST
    compared: int = 0

    def after(self, score: float) -> "Correction":
        """The correction after one more outcome."""
        step = max(STEP_MIN, STEP / (1.0 + self.compared / 50.0))
        missed = 1.0 if score > self.widen else 0.0
        widen = self.widen + step * (missed - (1.0 - AIM))
        return Correction(min(WIDEN_MAX, max(-WIDEN_MAX, widen)), self.compared + 1)

    def applied(self, span: Span, *, spent_s: float = 0.0) -> Span:
        """A range of remaining seconds, corrected as one of the whole length."""
        low_s, high_s = span.low_s + spent_s, span.high_s + spent_s
        widen = max(self.widen, -0.5 * log(max(high_s, LENGTH_MIN_S) / max(low_s, LENGTH_MIN_S)))
        low_s, high_s = low_s * exp(-widen), high_s * exp(widen)
        return Span(max(0.0, low_s - spent_s), max(0.0, high_s - spent_s), span.coverage)


def score(span: Span, seconds: float) -> float:
    """How much wider the range had to be to hold this, in logarithms."""
    at = log(max(seconds, LENGTH_MIN_S))
    low, high = log(max(span.low_s, LENGTH_MIN_S)), log(max(span.high_s, LENGTH_MIN_S))
    return max(low - at, at - high)
