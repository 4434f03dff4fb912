"""GPUs and CPU slots together."""

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.job import JobSpec, Profile
from treadle.models.scaling import ScalingModel
from treadle.models.workers import Count, Worker, Workers, WorkersModel, slot_ratio

CLUSTER = Cluster((Node("g", 8), Node("c", 16, device_type="cpu")))
PAIR = Workers(Worker(0.01, 0.05), Worker(0.04, 0.05), batch=120, slot_sync_s=0.001)


def devices(gpus, slots):
    return Allocation(
        (*(Device("g", n) for n in range(gpus)), *(Device("c", n) for n in range(slots)))
    )


def spec(model="predictable-1", identity="j"):
    profile = Profile(size=4, serial=0.1, model=model)
    return JobSpec(identity, 100.0, sizes=(1, 2, 4, 8, 16), asked=4, profile=profile)


def test_the_batch_is_split_so_that_both_kinds_finish_together():
    for_gpu, for_slot = PAIR.split(Count(4, 8))
    assert 4 * for_gpu + 8 * for_slot >= PAIR.batch
    assert 0.01 * for_gpu == pytest.approx(0.04 * for_slot, abs=0.04)


def test_slots_beside_gpus_shorten_the_step_and_weak_ones_are_left_idle():
    assert PAIR.step_s(Count(4, 8)) < PAIR.step_s(Count(4, 0))
    weak = Workers(PAIR.gpu, Worker(100.0, 0.05), batch=120)
    assert weak.split(Count(4, 8)) == (30, 0)
    assert weak.step_s(Count(4, 8)) == weak.step_s(Count(4, 0))


def test_a_kind_that_begins_late_is_not_waited_for():
    late = Workers(Worker(0.01), Worker(0.01, 60.0), batch=120)
    assert late.step_s(Count(4, 8)) == pytest.approx(0.3)


def test_on_gpus_alone_a_job_goes_as_the_other_model_says():
    base = ScalingModel.on(CLUSTER)
    model = WorkersModel(base, CLUSTER)
    assert model.alone(spec(), 4) == base.alone(spec(), 4)
    assert model.iterations_per_s(spec(), devices(4, 0), ()) == base.alone(spec(), 4)


def test_slots_never_slow_a_job_down_and_often_help_it():
    model = WorkersModel(ScalingModel.on(CLUSTER), CLUSTER)
    gains = []
    for number in range(30):
        job = spec(f"predictable-{number}")
        there = model.iterations_per_s(job, devices(4, 0), ())
        gains.append(model.iterations_per_s(job, devices(4, 12), ()) / there)
    assert min(gains) >= 1.0
    assert sum(gain > 1.05 for gain in gains) >= 10


def test_on_slots_alone_a_job_goes_slower_by_its_familys_ratio():
    model = WorkersModel(ScalingModel.on(CLUSTER), CLUSTER)
    for number in range(5):
        job = spec(f"predictable-{number}")
        ratio = slot_ratio(job, 0)
        speed = model.iterations_per_s(job, devices(0, 1), ()) / model.alone(job, 1)
        assert speed == pytest.approx(1.0 / (0.9 * ratio + 0.1), rel=0.02)


def test_a_job_without_use_for_gpus_runs_alike_on_both():
    model = WorkersModel(ScalingModel.on(CLUSTER), CLUSTER)
    job = spec("cpu-predictable-1")
    on_slots = model.iterations_per_s(job, devices(0, 4), ())
    assert on_slots == model.iterations_per_s(job, devices(4, 0), ()) == model.alone(job, 4)
