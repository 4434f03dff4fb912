"""Lengths that were seen as a distribution: Kaplan and Meier's estimate (1958).

Some lengths are only known to be longer than something: jobs that still run, were stopped, were
cancelled, or met their time limit. Leaving them out would make every estimate too short; taking
them as ends would as well. They count among the jobs at risk up to where they were cut off.
"""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from treadle.models.lengths.distribution import Lengths


class Seen(NamedTuple):
    """One length that was seen."""

    seconds: float
    whole: bool = True  # False: it was cut off, so the true length is longer
    weight: float = 1.0


def kaplan_meier(seen: Iterable[Seen], *, doubt: float = 1.0) -> Lengths | None:
    """The distribution that these lengths come from; None if none of them was whole.

    The next job may be longer than all of them. With a doubt of 1, that is as likely as that one
    of one more than were seen whole is the longest; to it comes what cut off jobs leave open.
    """
    counted = (one for one in seen if one.weight > 0 and 0 <= one.seconds < inf)
    ordered = sorted(counted, key=lambda one: (one.seconds,))
    whole = sum(one.weight for one in ordered if one.whole)
    if not whole:
        return None
    at_risk = sum(one.weight for one in ordered)
    survival, points, index = 1.0, [], 0
    while index < len(ordered):
        at, ended, gone = ordered[index].seconds, 0.0, 0.0
        while index < len(ordered) and ordered[index].seconds == at:
            gone += ordered[index].weight
            ended += ordered[index].weight if ordered[index].whole else 0.0
            index += 1
        if ended:
            after = max(0.0, survival * (1.0 - ended / at_risk)) if at_risk > ended else 0.0
            points.append((at, survival - after))
            survival = after
        at_risk -= gone
    longer = doubt / (whole + doubt)
    scale = 1.0 - longer
    lengths = Lengths.of(
        ((at, mass * scale) for at, mass in points), tail=longer + survival * scale
    )
    longest_s = max(ordered[-1].seconds, lengths.longest_s)
    return Lengths(lengths.points, lengths.tail, longest_s)
