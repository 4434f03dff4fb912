"""How long the jobs of a Philly-like workload take: by their sizes, their bursts and their tenants.

Two things are known: the distribution of durations for each size, and the GPU-hours of each tenant.
The distribution is kept exactly: the durations of a size bucket are spread evenly over its
published quantiles, and only their assignment to jobs is free. So every burst gets a random
position in its bucket's line of durations, moved towards the long or the short end by its tenant's
pace. The paces are found by iteration: a tenant with too few GPU-hours moves up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import log
from random import Random
from typing import NamedTuple

from treadle.traces.calibration import BURST_DURATION_SPREAD, DURATION_MINUTES, GPU_HOURS, QUANTILES
from treadle.traces.strata import Knots, quantiles, share_below, strata

LONGEST_S = 60 * 86_400  # no job of the log ran for longer
_LONGEST = 0.10  # of a bucket's durations go to small bursts only: sweeps do not run for weeks
_SMALL_BURST = 9
# How far a duration may stray from the middle of its stratum: not at all in the rarest bucket (46
# of 5,000 jobs), whose neighbouring durations lie 20 to 30 % apart.
_JITTER = 0.5
_JITTER_JOBS = 1000
# A pace counts in standard deviations of the bursts' positions. One multiplies durations by
# about e to the 2.5 (the spread of their logarithms), so the first steps make up for what hours are
# missing. Later ones are shorter, as two large bursts that change places change much at once.
_STEP = 0.4
_STEPS = 20
_PACE_MAX = 3.0  # hardly any burst has a position further out


class Drawn(NamedTuple):
    """One job before it has an arrival."""

    size: int
    seconds: int


@dataclass(slots=True, eq=False)
class Burst:
    """Jobs of one tenant at about one time."""

    size: int
    count: int
    tenant: str = ""
    owner: str = ""
    position: float = 0.0  # in its bucket's line before the tenant's pace, a standard normal
    jobs: list[Drawn] = field(default_factory=list)


def deal_durations(random: Random, bursts: Sequence[Burst], *, longest_s: int = LONGEST_S) -> None:
    """Give the jobs of every burst similar durations, so that tenants use their GPU-hours.

    A smaller `longest_s` keeps every tenant's share of the hours, because a tenant's waits depend
    on its load. It is there to make runs short.
    """
    ours: dict[str, list[Burst]] = {}
    for burst in bursts:
        burst.position = random.gauss(0.0, 1.0)
        ours.setdefault(bucket(burst.size), []).append(burst)
    lines = [
        _Line(_durations(random, duration_knots(name, longest_s), line), line)
        for name, line in ours.items()
    ]
    paces = _paces(lines)
    for line in lines:
        _deal_by_rank(random, line.durations, _in_line(line.bursts, paces))


def bucket(size: int) -> str:
    """The study's size bucket."""
    return "1" if size == 1 else "2-4" if size <= 4 else "5-8" if size <= 8 else ">8"


def duration_knots(name: str, longest_s: int = LONGEST_S) -> Knots:
    """Share of a bucket's jobs -> seconds; the shortest duration is our choice.

    With a smaller `longest_s`, the distribution of the log's jobs that take no longer than that.
    """
    minutes = DURATION_MINUTES[name]
    middle = [(q, 60.0 * m) for q, m in zip(QUANTILES, minutes, strict=True)]
    whole = [(0.0, 20.0 * minutes[0]), *middle, (1.0, float(LONGEST_S))]
    kept = share_below(whole, longest_s)
    below = [(share / kept, seconds) for share, seconds in whole if seconds < longest_s]
    return [*below, (1.0, float(longest_s))]


class _Line(NamedTuple):
    """The bursts of a bucket, in any order, and the durations to assign to their jobs."""

    durations: Sequence[int]  # seconds, ascending
    bursts: Sequence[Burst]


def _durations(random: Random, knots: Knots, bursts: Sequence[Burst]) -> list[int]:
    """As many as there are jobs, spread evenly over the quantiles."""
    count = sum(burst.count for burst in bursts)
    jitter = _JITTER * min(1.0, count / _JITTER_JOBS)
    return [max(1, round(s)) for s in quantiles(knots, strata(random, count, jitter=jitter))]


def _paces(lines: Sequence[_Line]) -> Mapping[str, float]:
    """How far each tenant moves its bursts up, so that its share of the work is as in the log."""
    paces = {burst.tenant: 0.0 for line in lines for burst in line.bursts}
    hours = sum(GPU_HOURS[tenant] for tenant in paces)
    # Cumulative seconds over the jobs of each line; a burst's total is a difference of two.
    sums = [[0, *accumulate(line.durations)] for line in lines]
    for taken in range(_STEPS):
        work = dict.fromkeys(paces, 0)
        for line, upto in zip(lines, sums, strict=True):
            place = 0
            for burst in _in_line(line.bursts, paces):
                end = place + burst.count
                work[burst.tenant] += burst.size * (upto[end] - upto[place])
                place = end
        whole, step = sum(work.values()), _STEP * (1 - taken / _STEPS)
        for tenant, pace in paces.items():
            lacks = log(GPU_HOURS[tenant] / hours) - log(work[tenant] / whole)
            paces[tenant] = min(max(pace + step * lacks, -_PACE_MAX), _PACE_MAX)
    return paces


def _in_line(bursts: Sequence[Burst], paces: Mapping[str, float]) -> list[Burst]:
    """Bursts from the short end to the long, where durations are longest small ones only."""
    line = sorted(bursts, key=lambda burst: burst.position + paces[burst.tenant])
    room, place = _LONGEST * sum([burst.count for burst in line]), len(line)
    while place and room > 0:
        place -= 1
        if line[place].count <= _SMALL_BURST:
            room -= line[place].count
    end = line[place:]
    large = [burst for burst in end if burst.count > _SMALL_BURST]
    return line[:place] + large + [burst for burst in end if burst.count <= _SMALL_BURST]


def _deal_by_rank(random: Random, durations: Sequence[int], line: Sequence[Burst]) -> None:
    """Each job aims for about the duration in the middle of its burst's stretch of the line.

    Durations are assigned by the rank of these targets, which keeps the distribution exact.
    """
    targets: list[tuple[float, Burst]] = []
    for burst in line:
        around = log(durations[len(targets) + burst.count // 2])
        targets += [
            (random.gauss(around, BURST_DURATION_SPREAD), burst) for _ in range(burst.count)
        ]
    targets.sort(key=lambda target: target[0])
    for seconds, (_, burst) in zip(durations, targets, strict=True):
        burst.jobs.append(Drawn(burst.size, seconds))
    for burst in line:
        random.shuffle(burst.jobs)
