"""Whether the end of a job can be predicted from its losses.

A job counts as predictable once all of these hold: there are enough losses and enough of the
declared steps are done; the newest losses lie near a curve through the older ones; the predicted
end is stable; the newest residuals show no drift; the loss falls overall. It stops being
predictable when the error on held-out losses is large twice in a row, or when the loss diverges:
curves change, by a drop of the learning rate or worse. A job that declares a number of steps and no
target loss is always predictable and is not judged.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import comb, inf
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from treadle.models.losses import HELD_OUT, Fit, Numbers

POINTS_MIN = 10
DONE_MIN = 0.05  # of the declared steps
ERROR_MAX = 0.10  # held out, relative
MOVED_MAX = 0.15  # of the predicted end, over the last refits
REFITS = 3
TREND_MAX = -0.4  # Kendall's tau
LOST_ERROR = 0.25  # held out, relative
LOST_WINDOWS = 2  # in a row
DIVERGED = 1.5  # newest losses over the lowest before them
_SIGN_LEVEL = 0.01  # how rare an imbalance of signs must be to count as drift
_ENDS = 5  # points of which a level is the mean


class Evidence(NamedTuple):
    """The results of one refit."""

    points: int
    done: float  # share of the declared steps
    error: float  # held out, relative
    end: float  # predicted iteration; infinite: never
    drifts: bool
    trend: float  # Kendall's tau of the losses
    diverges: bool

    @classmethod
    def of(cls, fit: Fit, *, points: int, done: float, end: float) -> Self:
        losses = fit.losses
        return cls(
            points,
            done,
            fit.held_out_error,
            end,
            drifts(fit.residuals),
            kendall(losses),
            diverges(losses),
        )


class Standing(NamedTuple):
    """The current judgement of a job."""

    predictable: bool = False
    ends: tuple[float, ...] = ()  # as predicted by the last refits, the newest last
    misses: int = 0  # windows in a row with a large error

    def after(self, evidence: Evidence) -> "Standing":
        """The judgement after one more refit."""
        ends = (*self.ends, evidence.end)[-REFITS:]
        misses = self.misses + 1 if evidence.error > LOST_ERROR else 0
        if self.predictable:
            return Standing(not (evidence.diverges or misses >= LOST_WINDOWS), ends, misses)
        return Standing(_is_predictable(evidence, ends), ends, misses)


def kendall(values: Numbers) -> float:
    """Kendall's tau of a series against its order: 1 if it only rises, −1 if it only falls."""
    earlier, later = _pairs(len(values))
    return float(np.sign(values[later] - values[earlier]).mean()) if len(earlier) else 0.0


def drifts(residuals: Numbers) -> bool:
    """Whether the newest residuals lean to one side more than by chance."""
    newest = residuals[-max(1, round(HELD_OUT * len(residuals))) :]
    above = int(np.count_nonzero(newest > 0))
    return min(above, len(newest) - above) < _fewest(len(newest))


def diverges(losses: Numbers) -> bool:
    """Whether the newest losses lie far above the lowest before them."""
    if len(losses) < 2 * _ENDS:
        return False
    levels = np.convolve(losses, np.full(_ENDS, 1.0 / _ENDS), mode="valid")
    return bool(levels[-1] > DIVERGED * levels.min())


@lru_cache(maxsize=256)
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The indexes of all pairs, earlier and later."""
    earlier, later = np.triu_indices(count, 1)
    return earlier, later


@lru_cache(maxsize=256)
def _fewest(count: int) -> int:
    """The fewest residuals of the rarer sign that are still likely by chance."""
    tail, fewest = 0.0, 0
    while True:
        tail += comb(count, fewest) / 2**count
        if 2.0 * tail >= _SIGN_LEVEL:
            return fewest
        fewest += 1


def _is_predictable(evidence: Evidence, ends: Sequence[float]) -> bool:
    """Whether a job that did not count as predictable does now."""
    enough = evidence.points >= POINTS_MIN and evidence.done >= DONE_MIN
    near = evidence.error <= ERROR_MAX and not evidence.drifts
    falls = evidence.trend < TREND_MAX and not evidence.diverges
    still = (
        len(ends) == REFITS and max(ends) < inf and max(ends) - min(ends) <= MOVED_MAX * max(ends)
    )
    return enough and near and falls and still
