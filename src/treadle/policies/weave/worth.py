"""What a unit of work of each job is worth: how much it shortens the sum of completion times.

Let m jobs be in the system and the work left of each be known, the i-th longest having i - 1 that
are longer. If speed grew with devices as k^p, the least sum of completion times is linear in the
work left (heSRPT; Berg, Vesilo and Harchol-Balter 2020), and a unit of the i-th longest job's work
costs

    ( i^(1/(1-p)) - (i-1)^(1/(1-p)) )^(1-p),    close to i^p but for a constant.

For p = 1 it is i: while a job is served alone, all that are longer wait for it. For p = 0, where
devices add nothing, it is 1 for all. So rates are worth maximising in the sum of worth x rate, and
only a job's place among the others counts, not its length.

Jobs of which it is not known which ends first share the mean of their places.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

from treadle.core.waiting_by_kind import Waiting

_VALUE = itemgetter(0)


class Worths:
    """The worth of work by what jobs are ordered by, for the jobs of one moment."""

    def __init__(
        self, held: Iterable[float], queue: Sequence[Waiting], longer: int, power: float
    ) -> None:
        """held: the values of jobs with devices. queue: those that wait, ascending. longer: so many
        more jobs are longer than all of these."""
        self._held = sorted(held)
        self._queue = queue
        self._total = len(self._held) + len(queue) + longer
        self._power = power
        self._known: dict[float, float] = {}

    def of(self, value: float) -> float:
        known = self._known.get(value)
        if known is None:
            held, queue = self._held, self._queue
            shorter = bisect_left(held, value) + bisect_left(queue, value, key=_VALUE)
            up_to = bisect_right(held, value) + bisect_right(queue, value, key=_VALUE)
            place = self._total - (shorter + up_to - 1) / 2
            known = self._known[value] = place**self._power
        return known
