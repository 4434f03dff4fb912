"""Muri's interleaving model: its formula by hand, and its published predictions."""

from dataclasses import replace
from itertools import combinations_with_replacement, permutations
from statistics import median

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import JobSpec
from treadle.models.catalogue import MURI, muri_profile
from treadle.models.scaling import Effects, ScalingModel
from treadle.models.staggered import ALONE, StaggeredModel, cycle


def spec(model: str, size: int, name: str = "a") -> JobSpec:
    return JobSpec(name, 1.0, sizes=(size,), profile=muri_profile(model, size))


def test_a_cycle_is_at_least_the_longest_job_and_at_most_all_one_after_another() -> None:
    for names in combinations_with_replacement(MURI, 3):
        stages = [
            (p.load_s + p.prepare_s, p.compute_s, p.sync_s)
            for p in (muri_profile(n, 8) for n in names)
        ]
        for order in permutations(stages):
            assert 0 < cycle(order) <= sum(map(sum, stages)) + 1e-9


def ratios(size: int, jobs: int) -> list[float]:
    """Time alone, one after another, over time together, for every group of Muri's models."""
    model = StaggeredModel()
    values = []
    for names in combinations_with_replacement(MURI, jobs):
        group = [spec(name, size) for name in names]
        values.append(sum(s.profile.iteration_s * ALONE for s in group) / model.cycle_s(group))
    return values


@pytest.mark.parametrize(
    ("size", "jobs", "middle", "losing"),
    [(1, 2, 1.02, 0.50), (32, 2, 1.33, 0.06), (1, 4, 1.46, 0.11), (32, 4, 1.84, 0.02)],
)
def test_the_published_predictions(size: int, jobs: int, middle: float, losing: float) -> None:
    """The median gain of a group, and the share of groups that lose by sharing."""
    values = ratios(size, jobs)
    assert median(values) == pytest.approx(middle, abs=0.02)
    assert sum(value < 1 for value in values) / len(values) == pytest.approx(losing, abs=0.01)
    assert max(values) <= 2.335


def test_two_jobs_that_load_much_are_predicted_to_pair_best() -> None:
    """A quirk of fusing storage and CPU into one stage over two slots."""
    pairs = {
        names: sum(spec(n, 8).profile.iteration_s * ALONE for n in names)
        / StaggeredModel().cycle_s([spec(n, 8) for n in names])
        for names in combinations_with_replacement(MURI, 2)
    }
    assert max(pairs, key=pairs.__getitem__) == ("dqn", "dqn")


def held(size: int, turn: int = 0) -> Allocation:
    return Allocation(tuple(Device("n0", number) for number in range(size)), turn=turn)


def test_s1_a_job_that_shares_is_as_slow_as_its_devices_are_few() -> None:
    """An 8-device job on one device cannot be faster beside another job than it is alone."""
    model = StaggeredModel()
    job = JobSpec("a", 1.0, sizes=(1, 8), asked=8, profile=muri_profile("resnet18", 8))
    twin = replace(job, id="b")
    alone = {size: model.iterations_per_s(job, held(size), ()) for size in (1, 8)}
    shared = {
        size: model.iterations_per_s(job, held(size), [(twin, held(size, 1))]) for size in (1, 8)
    }
    assert shared[1] < alone[1]
    assert shared[1] / alone[1] == pytest.approx(shared[8] / alone[8])


def test_s1_placement_counts_for_a_job_that_shares() -> None:
    model = StaggeredModel(ScalingModel(Effects(across_nodes=0.5), largest_node=8))
    job, twin = spec("bert", 2), spec("bert", 2, "b")
    apart = Allocation((Device("n0", 0), Device("n1", 0)))
    near = model.iterations_per_s(job, held(2), [(twin, held(2, 1))])
    far = model.iterations_per_s(job, apart, [(twin, apart)])
    assert far == pytest.approx(near / 2)


def test_s1_what_is_predicted_of_a_group_is_at_the_asked_sizes() -> None:
    model = StaggeredModel()
    job = JobSpec("a", 1.0, sizes=(1, 8), asked=1, profile=muri_profile("resnet18", 8))
    twin = replace(job, id="b")
    truth = model.iterations_per_s(job, held(1), [(twin, held(1, 1))])
    assert model.together([job, twin]) == pytest.approx((truth, truth))
