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

from collections.abc import Sequence
from itertools import groupby


def worths(values: Sequence[float], total: int, power: float) -> list[float]:
    """The worth of a unit of work, for jobs in ascending order of what they are ordered by.

    total: jobs in the system; those not given are longer than all that are.
    """
    found: list[float] = []
    for _, alike in groupby(values):
        count = len(list(alike))
        place = total - (2 * len(found) + count - 1) / 2
        found += [place**power] * count
    return found
