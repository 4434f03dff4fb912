"""A workload like AITurbo's job table: families of repeated jobs, most of them predictable.

A family is one training job that is submitted again and again: its jobs share a size, an owner, a
model's name and, give or take 5 %, a duration. The model's name says whether its loss can be
predicted ("predictable-17", "unpredictable-3").
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from weft.core.cluster import Cluster
from weft.core.errors import InvalidInputError
from weft.core.job import JobSpec, Profile
from weft.traces.arrivals import burst_sizes, busy_moments, fill, place_bursts
from weft.traces.calibration import (
    AITURBO_SIZE_SHARES,
    PREDICTABLE_SECONDS,
    REPEAT_SPREAD,
    REPEATED,
    UNPREDICTABLE_FIRST,
    UNPREDICTABLE_REPEATED,
    UNPREDICTABLE_SECONDS,
)
from weft.traces.strata import Knots, quantiles, quotas, strata
from weft.traces.workload import Workload

ARRIVALS = ("bursts", "daily", "poisson")
_FAMILIES_PER_OWNER = 3


class _Family(NamedTuple):
    size: int
    seconds: float
    owner: str
    profile: Profile


def draw_aiturbo(
    random: Random, jobs: int, load: float, cluster: Cluster, arrivals: str = ARRIVALS[0]
) -> Workload:
    """Jobs like the table's, in bursts like Philly's, by the hour of the day, or evenly."""
    if arrivals not in ARRIVALS:
        raise InvalidInputError(f"arrivals is {arrivals!r}; expected one of {', '.join(ARRIVALS)}")
    drawn = _draw_jobs(random, jobs, cluster)
    work = sum(family.size * seconds for family, seconds in drawn)
    span_s = max(1, round(work / (cluster.device_count * load)))
    specs = tuple(
        JobSpec(
            str(number),
            float(seconds),
            sizes=(family.size,),
            profile=family.profile,
            submit_at=float(moment),
            owner=family.owner,
        )
        for number, (moment, (family, seconds)) in enumerate(
            zip(_moments(random, jobs, span_s, arrivals), drawn, strict=True)
        )
    )
    return Workload(
        "aiturbo",
        specs,
        "generated",
        ("the 11.7 % of AITurbo's jobs that use no GPU are left out",),
    )


def _draw_jobs(random: Random, jobs: int, cluster: Cluster) -> list[tuple[_Family, int]]:
    """Family and seconds of each job, in order of arrival; a family begins with its first job."""
    firsts = max(1, round(jobs * (1 - REPEATED)))
    odd_firsts = round(firsts * UNPREDICTABLE_FIRST)
    sizes = [size for size in AITURBO_SIZE_SHARES if size <= cluster.device_count]
    shares = {size: AITURBO_SIZE_SHARES[size] for size in sizes}
    families = [
        _families(random, odd_firsts, "unpredictable", UNPREDICTABLE_SECONDS, shares),
        _families(random, firsts - odd_firsts, "predictable", PREDICTABLE_SECONDS, shares),
    ]
    odd_repeats = round((jobs - firsts) * UNPREDICTABLE_REPEATED) if odd_firsts else 0
    repeats = [odd_repeats, jobs - firsts - odd_repeats]
    drawn: list[tuple[float, _Family, int]] = []
    for kind, count in zip(families, repeats, strict=True):
        for place, family in enumerate(kind):
            born = random.random()
            drawn.append((born, family, max(1, round(family.seconds))))
            for _ in range(count * (place + 1) // len(kind) - count * place // len(kind)):
                spread = 1 + random.uniform(-REPEAT_SPREAD, REPEAT_SPREAD)
                seconds = max(1, round(family.seconds * spread))
                drawn.append((random.uniform(born, 1.0), family, seconds))
    drawn.sort(key=lambda job: job[0])
    return [(family, seconds) for _, family, seconds in drawn]


def _families(
    random: Random, count: int, kind: str, knots: Knots, shares: dict[int, float]
) -> list[_Family]:
    """Families in random order, with sizes by quota and durations by strata."""
    seconds = quantiles(knots, strata(random, count, jitter=0.9))
    random.shuffle(seconds)
    sizes = [size for size, many in quotas(count, shares).items() for _ in range(many)]
    random.shuffle(sizes)
    return [
        _Family(
            size,
            lasts_s,
            f"user-{number // _FAMILIES_PER_OWNER}",
            Profile(size=size, model=f"{kind}-{number}"),
        )
        for number, (size, lasts_s) in enumerate(zip(sizes, seconds, strict=True))
    ]


def _moments(random: Random, jobs: int, span_s: int, arrivals: str) -> Sequence[int]:
    """When the jobs arrive, in order; the first at 0 and the last at the span's end."""
    if arrivals == "bursts":
        bursts = place_bursts(random, burst_sizes(random, jobs), span_s)
    elif arrivals == "daily":
        bursts = [[moment] for moment in busy_moments(random, jobs, span_s)]
    else:
        bursts = [[random.randint(0, span_s)] for _ in range(jobs)]
    fill(span_s, bursts)
    return sorted(moment for burst in bursts for moment in burst)
