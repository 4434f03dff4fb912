"""A workload like AITurbo's job table: families of repeated jobs, most of them predictable.

A family is one training job that is submitted again and again: its jobs share a size, an owner, a
model's name and, give or take 5 %, a duration. The model's name says whether its loss can be
predicted ("predictable-17", "unpredictable-3"), and with "cpu-" before it that the family trains
without GPUs.

In the table, unpredictable jobs are short, so changing their share changes the whole workload. With
`durations=alike` the jobs stay the same for every share: a family's kind does not depend on its
size, duration or arrivals, and a larger unpredictable share changes only the losses.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec, Profile
from treadle.traces.arrivals import burst_sizes, busy_moments, fill, place_bursts
from treadle.traces.calibration import (
    AITURBO_SIZE_SHARES,
    CPU_SLOT_SHARES,
    PREDICTABLE_SECONDS,
    REPEAT_SPREAD,
    REPEATED,
    UNPREDICTABLE_FIRST,
    UNPREDICTABLE_REPEATED,
    UNPREDICTABLE_SECONDS,
)
from treadle.traces.strata import Knots, quantiles, quotas, strata
from treadle.traces.workload import Workload

ARRIVALS = ("bursts", "daily", "poisson")
DURATIONS = ("by-kind", "alike")
_FAMILIES_PER_OWNER = 3


class _Family(NamedTuple):
    size: int
    seconds: float
    owner: str
    profile: Profile
    cpu_only: bool = False


def draw_aiturbo(
    random: Random,
    jobs: int,
    load: float,
    cluster: Cluster,
    arrivals: str = ARRIVALS[0],
    *,
    unpredictable: float | None = None,
    cpu_only: float = 0.0,
    durations: str = DURATIONS[0],
) -> Workload:
    """Jobs like the table's, in bursts like Philly's, by the hour of the day, or evenly.

    `unpredictable` overrides the table's share of unpredictable jobs. `cpu_only` is the share of
    families that use no GPU. With durations `alike`, the share changes only the losses. The load
    counts the cluster's GPUs.
    """
    for name, word, words in (
        ("arrivals", arrivals, ARRIVALS),
        ("durations", durations, DURATIONS),
    ):
        if word not in words:
            raise InvalidInputError(f"{name} is {word!r}; expected one of {', '.join(words)}")
    for name, share in (("unpredictable", unpredictable), ("cpu", cpu_only)):
        if share is not None and not 0 <= share <= 1:
            raise InvalidInputError(f"{name} is {share:g}; expected a share from 0 to 1")
    alike = durations == "alike"
    odds = _odd_shares(None if alike else unpredictable)
    drawn = _draw_jobs(random, jobs, cluster, odds, cpu_only)
    if alike:
        table = (1 - REPEATED) * odds[0] + REPEATED * odds[1]
        drawn = _relabelled(random, drawn, table if unpredictable is None else unpredictable)
    span_s = max(1, round(_span_s(drawn, cluster, load)))
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
    left_out = "the 11.7 % of AITurbo's jobs that use no GPU are left out"
    return Workload("aiturbo", specs, "generated", () if cpu_only else (left_out,))


def _odd_shares(share: float | None) -> tuple[float, float]:
    """The unpredictable shares of first and of repeated submissions that give this overall share.

    Both odds are multiplied by the same factor, so first submissions stay less predictable.
    """
    table = (UNPREDICTABLE_FIRST, UNPREDICTABLE_REPEATED)
    if share is None:
        return table
    low, high = 1e-9, 1e9
    for _ in range(100):
        factor = (low * high) ** 0.5
        first, repeated = (p * factor / (1 - p + p * factor) for p in table)
        if (1 - REPEATED) * first + REPEATED * repeated < share:
            low = factor
        else:
            high = factor
    return first, repeated


def _span_s(drawn: Sequence[tuple[_Family, int]], cluster: Cluster, load: float) -> float:
    """The span in which the jobs offer this load to the GPUs, or to the CPU slots if longer."""
    slots = sum(node.device_count for node in cluster.nodes if node.has_slots)
    if not slots or slots == cluster.device_count:  # Only one kind of device.
        work = sum(family.size * seconds for family, seconds in drawn)
        return work / (cluster.device_count * load)
    spans = []
    for cpu_only, devices in ((False, cluster.device_count - slots), (True, slots)):
        work = sum(f.size * seconds for f, seconds in drawn if f.cpu_only == cpu_only)
        spans.append(work / (devices * load))
    return max(spans)


def _draw_jobs(
    random: Random, jobs: int, cluster: Cluster, odds: tuple[float, float], cpu_only: float
) -> list[tuple[_Family, int]]:
    """Family and seconds of each job, in order of arrival; a family begins with its first job."""
    firsts = max(1, round(jobs * (1 - REPEATED)))
    odd_firsts = round(firsts * odds[0])
    sizes = [size for size in AITURBO_SIZE_SHARES if size <= cluster.device_count]
    shares = {size: AITURBO_SIZE_SHARES[size] for size in sizes}
    families = [
        _families(random, odd_firsts, "unpredictable", UNPREDICTABLE_SECONDS, shares),
        _families(random, firsts - odd_firsts, "predictable", PREDICTABLE_SECONDS, shares),
    ]
    if cpu_only:
        families = [_without_gpus(random, kind, cpu_only) for kind in families]
    odd_repeats = round((jobs - firsts) * odds[1]) if odd_firsts else 0
    if odd_firsts == firsts:
        odd_repeats = jobs - firsts
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


def _without_gpus(random: Random, families: list[_Family], share: float) -> list[_Family]:
    """The same families; this share of them uses CPU slots only."""
    count = round(share * len(families))
    slots = [size for size, many in quotas(count, CPU_SLOT_SHARES).items() for _ in range(many)]
    random.shuffle(slots)
    changed = [
        family._replace(
            size=size,
            profile=Profile(size=size, model=f"cpu-{family.profile.model}"),
            cpu_only=True,
        )
        for family, size in zip(families, slots, strict=False)
    ]
    return [*changed, *families[count:]]


def _relabelled(
    random: Random, drawn: list[tuple[_Family, int]], share: float
) -> list[tuple[_Family, int]]:
    """The same jobs with about this share unpredictable; a larger share keeps those and adds."""
    counts = Counter(family for family, _ in drawn)
    families = sorted(counts, key=lambda family: family.profile.model)
    random.shuffle(families)
    renamed: dict[_Family, _Family] = {}
    before = 0
    for number, family in enumerate(families):
        odd = before + counts[family] / 2 < share * len(
            drawn
        )  # the family's middle is inside the share
        before += counts[family]
        model = f"{'un' if odd else ''}predictable-{number}"
        if family.cpu_only:
            model = f"cpu-{model}"
        renamed[family] = family._replace(profile=replace(family.profile, model=model))
    return [(renamed[family], seconds) for family, seconds in drawn]


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
