"""The space of plans: only legal ones, never one that does not fit, and answers for jobs."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.allocation import Allocation, Host
from treadle.core.cluster import Device
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import Plan
from treadle.core.ports import PerformanceModel
from treadle.models.plans.catalogue import KNOWN, TYPES
from treadle.models.plans.memory import GIB, Memory, Room, memory
from treadle.models.plans.planned import PlannedModel
from treadle.models.plans.space import Planner, dense, legal_plans, shape_of
from treadle.models.scaling import ScalingModel

types = st.sampled_from(sorted(TYPES))
shapes = st.one_of(
    st.builds(dense, st.integers(1, 64)),
    st.lists(st.integers(1, 8), min_size=1, max_size=8).map(tuple),
)


@given(name=types, shape=shapes, micro_batches=st.booleans())
def test_only_legal_plans_are_listed_and_each_once(
    name: str, shape: tuple[int, ...], micro_batches: bool
) -> None:
    facts, size = TYPES[name].facts, sum(shape)
    plans = list(legal_plans(facts, shape, micro_batches=micro_batches))
    assert len(plans) == len(set(plans))
    for plan in plans:
        assert plan.data is not None
        assert plan.tensor * plan.pipeline * plan.data == size
        assert facts.batch % (plan.data * plan.accumulate) == 0
        assert all(count % plan.tensor == 0 for count in shape)
        assert facts.heads % plan.tensor == 0
        assert facts.layers % plan.pipeline == 0
        split = plan.tensor > 1 or plan.pipeline > 1
        assert facts.splits or not split
        assert not (split and (plan.offload or plan.shard != "none"))
        assert micro_batches or not split or plan.accumulate == 1


@given(
    name=types,
    shape=shapes,
    device_gib=st.floats(1, 200),
    host_gib=st.one_of(st.floats(1, 100), st.just(inf)),
)
def test_a_plan_that_does_not_fit_is_never_chosen(
    name: str, shape: tuple[int, ...], device_gib: float, host_gib: float
) -> None:
    room = Room(device_gib, host_gib)
    planner = Planner(TYPES, room)
    best = planner.best(name, shape)
    listed = planner.candidates(name, shape)
    fitting = [one for one in listed if one.memory.fits(room)]
    assert [one for one in listed if one.feasible] == fitting
    if best is None:
        assert not fitting
        return
    assert memory(TYPES[name].facts, best.plan, sum(shape)).fits(room)
    assert best.iteration_s == min(one.iteration_s for one in fitting)


def test_among_equals_the_simplest_plan_is_first() -> None:
    """Accumulating costs ViT nothing in this model, so it must not be chosen for nothing."""
    best = Planner(TYPES).best("vit", (8,))
    assert best is not None
    assert best.plan == Plan(data=8)


# -- memory -------------------------------------------------------------------------------------


def test_memory_by_hand() -> None:
    """RoBERTa, plain: 16 bytes a parameter and 24 layers of 64 samples."""
    facts = TYPES["roberta"].facts
    layer = 512 * 64 * 1024 * (34 + 5 * 16 * 512 / 1024)
    assert memory(facts, Plan(), 1).device_gib == pytest.approx(
        (16 * 355_412_057 + 24 * layer) / GIB
    )
    recomputed = 2 * 512 * 64 * 1024 * 24 + layer
    assert memory(facts, Plan(recompute=True), 1).device_gib == pytest.approx(
        (16 * 355_412_057 + recomputed) / GIB
    )


def test_each_trick_saves_memory() -> None:
    facts = TYPES["llama7b"].facts
    order = [
        Plan(),
        Plan(shard="optimizer"),
        Plan(shard="gradients"),
        Plan(shard="gradients", offload=True),
        Plan(shard="gradients", offload=True, recompute=True),
    ]
    sizes = [memory(facts, plan, 8).device_gib for plan in order]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)
    assert memory(facts, Plan(shard="all"), 8).device_gib < sizes[2]
    host = [memory(facts, plan, 8).host_gib for plan in order]
    assert host[:3] == [2.0] * 3
    assert host[3] == pytest.approx(2 + 2 * facts.parameters / GIB)


def test_the_first_stage_holds_as_many_micro_batches_as_there_are_stages() -> None:
    facts = TYPES["llama7b"].facts
    one, two, eight = (
        memory(facts, Plan(pipeline=2, accumulate=a), 2).device_gib for a in (1, 2, 8)
    )
    assert one == pytest.approx(two)
    assert eight < two


def test_a_plan_fits_the_device_less_a_reserve_and_its_share_of_the_host() -> None:
    assert Memory(72.0, 2).fits(Room())
    assert not Memory(72.1, 2).fits(Room())
    assert not Memory(10, 25).fits(Room(80, 20))


# -- jobs ---------------------------------------------------------------------------------------


def devices(*counts: int) -> tuple[Device, ...]:
    return tuple(Device(f"n{n}", i) for n, count in enumerate(counts) for i in range(count))


def spec(model: str, size: int = 8, plan: Plan | None = None) -> JobSpec:
    plans = (plan,) if plan else (Plan(),)
    return JobSpec("a", 100.0, (size,), profile=Profile(model=model, size=size), plans=plans)


def test_a_planner_answers_for_a_job_on_devices() -> None:
    planner = Planner(KNOWN)
    allocation = Allocation(devices(4, 4))
    assert shape_of(Allocation(devices(1, 3))) == (3, 1)
    best = planner.best("gpt2", (4, 4))
    assert best is not None
    assert best.plan == Plan(data=8, shard="gradients")
    own = planner.iteration_s(spec("gpt2"), allocation)
    assert own is not None
    assert own > best.iteration_s
    assert planner.iteration_s(spec("alexnet"), allocation) is None
    assert planner.iteration_s(spec("gpt2"), Allocation(devices(4, 4), best.plan)) == pytest.approx(
        best.iteration_s
    )


def test_cores_come_from_the_allocation_where_it_says_them() -> None:
    planner = Planner(KNOWN, cores=4)
    plan = Plan(shard="gradients", offload=True)
    job = spec("llama7")
    said = Allocation(devices(8), plan, host=Host(8.0, 64.0))
    usual = planner.iteration_s(job, Allocation(devices(8), plan))
    more = planner.iteration_s(job, said)
    assert usual is not None
    assert more is not None
    assert more < usual


def test_a_job_that_gets_what_it_asked_for_takes_as_long_as_its_trace_says() -> None:
    model: PerformanceModel = PlannedModel(Planner(KNOWN), ScalingModel())
    asked = Plan(shard="gradients", offload=True)
    job = spec("gpt2", 8, asked)
    speed = model.iterations_per_s(job, Allocation(devices(8), asked), ())
    assert speed == pytest.approx(1.0)
    assert model.alone(job, 8) == pytest.approx(speed)
    shared = model.iterations_per_s(
        job, Allocation(devices(8), asked), [(job, Allocation(devices(8)))]
    )
    assert shared == pytest.approx(0.5)
    assert model.iterations_per_s(job, Allocation(devices(4, 4), asked), ()) < 1


def test_unknown_models_and_impossible_sizes_have_an_answer_too() -> None:
    model = PlannedModel(Planner(KNOWN), ScalingModel())
    other = spec("alexnet")
    assert model.alone(other, 8) == ScalingModel().alone(other, 8)
    allocation = Allocation(devices(8))
    assert model.iterations_per_s(other, allocation, ()) == 1.0
    assert model.alone(spec("vit"), 3) == pytest.approx(3 / 8)
