"""The Gittins index: whom to run next when only the distribution of lengths is known.

Of a job that has run for some time, the index is the best ratio, over all spells that it could be
given next, of the probability that it ends within the spell to the time that it is expected to use
of it. Running the job with the highest index first minimises the mean completion time on one
device (Gittins, 1979). It needs no length of the job itself; with falling hazards it is least
attained service, and with rising hazards it lets a job finish that has begun.
"""

from collections.abc import Iterator
from itertools import pairwise

from treadle.models.lengths.distribution import Lengths

_FAR = (0.5, 0.8, 0.95)  # where a tail is looked at besides the points: its quantiles
_SECONDS_MIN = 1e-3


def gittins(lengths: Lengths, age_s: float = 0.0) -> float:
    """The index of a job of this distribution that has run for so long; higher goes first."""
    left = lengths.after(age_s)
    best = 0.0
    used_s, before_s, alive = 0.0, 0.0, 1.0
    for at_s, ended in _ends(left):
        # Until this moment everything that is still alive uses time.
        used_s += alive * (at_s - before_s)
        alive -= ended
        before_s = at_s
        best = max(best, (1.0 - alive) / max(used_s, _SECONDS_MIN))
    return best


def equivalent_s(lengths: Lengths) -> float:
    """The length of a job of known length that has the same index as one of this distribution.

    This is the one number by which a job that never ran is ordered. The mean is too long for that:
    where a few jobs take days, it puts every unknown job behind all that have hours left, though
    most would have ended, or said how long they are, within minutes.
    """
    return 1.0 / gittins(lengths)


def _ends(left: Lengths) -> Iterator[tuple[float, float]]:
    """Spells that are worth a look, and the mass that ends by each: the points, then the tail."""
    points: list[tuple[float, float]] = list(left.points)
    if left.tail:
        shares = (0.0, *_FAR)
        for before, share in pairwise(shares):
            at_s = left.quantile(1.0 - left.tail * (1.0 - share))
            points.append((at_s, left.tail * (share - before)))
        points.sort()
    return iter(points)
