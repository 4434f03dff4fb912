"""Whether printed ranges hold what they promise: how much of a distribution a range must span.

A distribution made of a few runs is too sure of itself, and jobs change from day to day. So every
outcome is compared with the range that its kinds gave when it began. A miss makes later ranges span
a larger share of their distribution, and a hit a smaller one, in such steps that the promise holds
in the long run on sequences of jobs of any sort (Gibbs and Candes, NeurIPS 2021).
"""

from typing import NamedTuple

PROMISE = 0.85  # a little more than is promised, as what ends now was printed earlier
STEP = 0.03
# Jobs come in batches that are alike. A batch that is easy to tell must not leave ranges that are
# too narrow for the next.
SHARE_MIN, SHARE_MAX = 0.70, 0.985
# Ranges are compared at the start and at these ages, each with a level of its own: a job that has
# outlived most like it is another matter.
AGES_S = (60.0, 600.0, 3600.0, 36_000.0)


def stage(age_s: float) -> int:
    """Which of the levels is for a job of this age."""
    return sum(age_s >= age for age in AGES_S)


class Level(NamedTuple):
    """The share of a distribution that a printed range spans, and how many were compared."""

    share: float = PROMISE
    compared: int = 0

    def after(self, *, held: bool) -> "Level":
        """The level after one more range held, or did not."""
        missed = 0.0 if held else 1.0
        share = self.share + STEP * (missed - (1.0 - PROMISE))
        return Level(min(SHARE_MAX, max(SHARE_MIN, share)), self.compared + 1)


PLAIN = (Level(),) * (len(AGES_S) + 1)  # by stage, where nothing was compared
