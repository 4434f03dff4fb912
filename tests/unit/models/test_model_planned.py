"""Speed by plan, and jobs with every size and plan that is worth having."""

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.models.plans.planned import PlannedModel, alike, offering, standard
from treadle.models.plans.space import dense
from treadle.models.scaling import ScalingModel

PLANNER = standard()
MODEL = PlannedModel(PLANNER, ScalingModel())
OFFLOAD = Plan(data=4, shard="gradients", offload=True)


def job(model: str = "bert", plan: Plan = OFFLOAD, asked: int = 4) -> JobSpec:
    profile = Profile(alone_s=0.5, size=asked, model=model)
    spec = JobSpec("a", 100.0, sizes=(asked,), profile=profile, plans=(plan, DATA_PARALLEL))
    return offering(spec, PLANNER, 16, 8)


def on(size: int, plan: Plan = DATA_PARALLEL) -> Allocation:
    return Allocation(tuple(Device("n0", number) for number in range(size)), plan)


def test_a_job_that_names_its_plan_takes_what_the_plan_model_says():
    spec = job()
    seconds = PLANNER.types["bert"].iteration_s(OFFLOAD, (4,), cores=PLANNER.cores)
    assert spec.profile.iteration_s == pytest.approx(seconds)
    assert 1 / MODEL.iterations_per_s(spec, on(4, OFFLOAD), ()) == pytest.approx(seconds)


def test_an_allocation_without_a_plan_means_the_users():
    spec = job()
    named = MODEL.iterations_per_s(spec, on(4, OFFLOAD), ())
    assert MODEL.iterations_per_s(spec, on(4), ()) == pytest.approx(named)
    assert MODEL.alone(spec, 4) == pytest.approx(named)


def test_where_the_users_plan_does_not_fit_it_means_the_best():
    spec, best = job(), PLANNER.best("bert", (8,))
    assert best is not None
    assert 1 / MODEL.alone(spec, 8) == pytest.approx(best.iteration_s)
    assert 1 / MODEL.iterations_per_s(spec, on(8), ()) == pytest.approx(best.iteration_s)


def test_the_best_plan_of_every_size_is_on_offer_and_the_users_comes_first():
    spec = job()
    assert spec.plans[0] == OFFLOAD
    assert spec.plans[-1] == DATA_PARALLEL
    assert spec.asked == 4
    for size in spec.sizes:
        best = PLANNER.best("bert", dense(size))
        assert best is not None
        assert best.plan in spec.plans
        assert any(plan.offload and plan.fits(size) for plan in spec.plans[:-1])
    assert len(spec.plans) == len(set(spec.plans)) < 40


def test_a_size_without_a_plan_is_as_fast_as_if_it_were_cut_up_without_loss():
    spec = job("llama30", Plan(4, 4, 1), 16)
    assert MODEL.alone(spec, 1) == pytest.approx(MODEL.alone(spec, 16) / 16)
    asked = MODEL.alone(spec, 16)
    assert MODEL.iterations_per_s(spec, on(1), ()) == pytest.approx(asked / 16)


def test_a_shape_without_a_plan_runs_the_one_of_fewer_nodes():
    spec = job("llama30", Plan(4, 4, 1), 16)
    uneven = Allocation(
        tuple(Device("n0", number) for number in range(7))
        + tuple(Device("n1", number) for number in range(17))
    )
    assert 0 < MODEL.iterations_per_s(spec, uneven, ()) < MODEL.alone(spec, 24)


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        (Plan(data=4), Plan(data=8), True),
        (Plan(data=4), Plan(data=8, accumulate=2), True),
        (Plan(data=4), Plan(data=4, recompute=True), False),
        (Plan(data=4), Plan(data=4, shard="gradients"), False),
        (Plan(data=4, shard="gradients"), Plan(data=1), True),
        (OFFLOAD, Plan(data=4, shard="gradients"), False),
        (Plan(2, 2, 1), Plan(2, 2, 4), True),
        (Plan(2, 2, 1), Plan(4, 1, 1), False),
    ],
)
def test_plans_are_alike_that_differ_in_copies_and_micro_batches(one, other, answer):
    assert alike(one, other) is answer
