"""When jobs arrive: separate bursts, more of them in busy hours.

A burst is a run of jobs of one tenant at most a minute apart. Two bursts of a tenant are kept
further apart than that if the span has room, so that counting bursts in the trace gives the bursts
that were drawn. Second 0 is midnight on a Monday.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from random import Random

from treadle.traces.calibration import BURST_GAP_S, BURST_JOBS, DAYS, HOURS
from treadle.traces.strata import quantiles, strata

_HOUR_S = 3600.0
_SLOTS_MAX = 4096  # a longer span has longer slots
_APART_S = BURST_GAP_S + 1
_MEMBER_GAP_S = 4.0  # mean between two jobs of a burst
_MEMBER_GAP_MAX_S = 50
# Activity levels of a tenant (quiet, normal, busy): its burst rate, and the mean slots it lasts.
_STATES = (0.3, 1.0, 3.0)
_STATE_SLOTS = 10
_WEEK = [hour * day for day in DAYS for hour in HOURS]
_BURST_KNOTS = ((0.0, 1.0), *BURST_JOBS)
_BURST_MEAN = (
    sum(map(round, quantiles(_BURST_KNOTS, [(n + 0.5) / 2000 for n in range(2000)]))) / 2000
)


def burst_sizes(random: Random, jobs: int) -> list[int]:
    """Jobs in each burst, the largest first; together they are all the jobs."""
    shares = strata(random, max(1, round(jobs / _BURST_MEAN)), jitter=0.5)
    sizes = sorted(map(round, quantiles(_BURST_KNOTS, shares)), reverse=True)
    surplus = sum(sizes) - jobs
    while surplus >= sizes[-1]:
        surplus -= sizes.pop()
    sizes[0] -= max(0, surplus)
    return sizes + [1] * -surplus


def place_bursts(random: Random, sizes: Sequence[int], span_s: int) -> list[list[int]]:
    """The arrivals of one tenant's bursts within the span, in whole seconds."""
    offsets = [_offsets(random, size, span_s) for size in sizes]
    starts = busy_moments(random, len(sizes), span_s, states=_STATES)
    order = sorted(range(len(sizes)), key=starts.__getitem__)
    free_at = 0
    for place in order:
        starts[place] = max(starts[place], free_at)
        free_at = starts[place] + offsets[place][-1] + _APART_S
    latest = span_s
    for place in reversed(order):
        starts[place] = max(0, min(starts[place], latest - offsets[place][-1]))
        latest = starts[place] - _APART_S
    return [
        [start + offset for offset in burst] for start, burst in zip(starts, offsets, strict=True)
    ]


def busy_moments(
    random: Random, count: int, span_s: int, *, states: Sequence[float] = (1.0,)
) -> list[int]:
    """Unsorted moments within the span, more of them in busy hours and days."""
    slot_s = max(span_s / _SLOTS_MAX, min(_HOUR_S, span_s / 8), 1.0)
    slot_count = max(1, ceil(span_s / slot_s))
    hours = slot_s / _HOUR_S
    weights: list[float] = []
    while len(weights) < slot_count:
        state, begin = random.choice(states), len(weights)
        end = begin + 1 + int(random.expovariate(1 / _STATE_SLOTS))
        weights += [state * _WEEK[int(slot * hours) % len(_WEEK)] for slot in range(begin, end)]
    del weights[slot_count:]
    slots = random.choices(range(len(weights)), cum_weights=list(accumulate(weights)), k=count)
    return [min(span_s, int((slot + random.random()) * slot_s)) for slot in slots]


def fill(span_s: int, bursts: Sequence[list[int]]) -> None:
    """Move the first burst to the begin of the span and the last to its end, in place."""
    first = min(bursts, key=lambda burst: burst[0])
    first[:] = [moment - first[0] for moment in first]
    if len(bursts) > 1:
        last = max((burst for burst in bursts if burst is not first), key=lambda burst: burst[-1])
        last[:] = [moment + span_s - last[-1] for moment in last]


def _offsets(random: Random, size: int, span_s: int) -> list[int]:
    """Seconds from a burst's first job to each of its jobs; at most half the span in all."""
    gaps = [
        min(_MEMBER_GAP_MAX_S, int(random.expovariate(1 / _MEMBER_GAP_S))) for _ in range(size - 1)
    ]
    offsets = [0, *accumulate(gaps)]
    if offsets[-1] > span_s // 2:
        return [offset * (span_s // 2) // offsets[-1] for offset in offsets]
    return offsets
