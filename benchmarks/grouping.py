"""The quality of Muri's grouping: total efficiency of its groups over that of the best groups.

    .venv/bin/python benchmarks/grouping.py

Up to ten random jobs of one size, on as few devices as groups of four allow. The best groups come
from trying every partition. Jobs are drawn from Muri's catalogue, or have independently drawn stage
times, and are judged by Muri's model and by Treadle's own.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from statistics import mean, quantiles

from treadle.core.job import JobSpec, Profile
from treadle.core.ports import InterleavingModel
from treadle.models.catalogue import MURI, muri_profile
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.staggered import StaggeredModel
from treadle.models.tokens import TokenModel
from treadle.policies.muri.grouping import Grouping

LARGEST = 4
MODELS = ("staggered", "tokens")
JOBS = ("catalogue", "any stages")


def model(name: str) -> InterleavingModel:
    return StaggeredModel() if name == "staggered" else TokenModel(ScalingModel(), StageTimes())


def draw_jobs(random: Random, kind: str) -> list[JobSpec]:
    """Five to ten jobs of one device."""
    profiles = [muri_profile(name, 1) for name in MURI]
    jobs = []
    for number in range(random.randint(5, 10)):
        profile = random.choice(profiles)
        if kind != "catalogue":
            load_s, prepare_s, compute_s, sync_s = (random.expovariate(5.0) for _ in range(4))
            profile = Profile(load_s, prepare_s, compute_s, sync_s)
        jobs.append(JobSpec(str(number), 1.0, profile=profile))
    return jobs


def best(jobs: Sequence[JobSpec], devices: int, judge: InterleavingModel) -> float:
    """The greatest total efficiency of groups of up to four on these devices."""

    @cache
    def of(left: int, devices: int) -> float:
        if not left:
            return 0.0
        if left.bit_count() > devices * LARGEST:
            return float("-inf")
        return max(efficiency(group) + of(left & ~group, devices - 1) for group in groups_of(left))

    @cache
    def efficiency(group: int) -> float:
        members = [job for place, job in enumerate(jobs) if group >> place & 1]
        return judge.efficiency(members)

    return of((1 << len(jobs)) - 1, devices)


def groups_of(left: int) -> Iterator[int]:
    """Every group of up to four that contains the first job that is left."""
    first = left & -left
    others = [1 << place for place in range(left.bit_length()) if left & ~first & 1 << place]

    def grow(group: int, others: Sequence[int], room: int) -> Iterator[int]:
        yield group
        if room:
            for place, other in enumerate(others):
                yield from grow(group | other, others[place + 1 :], room - 1)

    return grow(first, others, LARGEST - 1)


def quality(seed: int, kind: str, judge_name: str) -> float:
    """Efficiency of Muri's groups over that of the best groups."""
    judge = model(judge_name)
    jobs = draw_jobs(Random(f"{seed} {kind}"), kind)
    devices = -(-len(jobs) // LARGEST)
    groups = Grouping(judge, largest=LARGEST, matching=True).form([jobs], devices, lambda _: None)
    assert len(groups) <= devices, "five to ten jobs fit in groups of four"
    formed = sum(judge.efficiency(group) for group in groups)
    return formed / best(tuple(jobs), devices, judge)


def main() -> None:
    print(
        f"{'jobs':11} {'judged by':10} {'mean':>6} {'worst':>6} {'p10':>6} {'p50':>6} {'best':>8}"
    )
    for kind in JOBS:
        for judge in MODELS:
            found = [quality(seed, kind, judge) for seed in range(100)]
            tenths = quantiles(found, n=10)
            optimal = sum(value > 1 - 1e-9 for value in found)
            print(
                f"{kind:11} {judge:10} {mean(found):6.3f} {min(found):6.3f} {tenths[0]:6.3f} "
                f"{tenths[4]:6.3f} {optimal:6} %"
            )


if __name__ == "__main__":
    main()
