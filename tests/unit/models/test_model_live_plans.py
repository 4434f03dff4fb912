"""Plan models of live jobs: from their names, their sizes, and their measured steps."""

from dataclasses import replace

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.core.live_plans import ModelSize, announced
from treadle.core.plan import DATA_PARALLEL, Plan, plan_of
from treadle.models.plans.iteration_time import ModelType
from treadle.models.plans.live_plans import LivePlans
from treadle.models.plans.space import dense

CLUSTER = Cluster((Node("n", 8),))
SIZE = ModelSize(10_000_000, batch=16, sequence=64, hidden=256, layers=4, heads=4)
WORDS = (*announced(shard=True, recompute=True, tensor=4, pipeline=1), SIZE.word)


def spec(model: str = "mine") -> JobSpec:
    return JobSpec("1", 100.0, sizes=(1, 2, 4), profile=Profile(model=model))


def met(plans: LivePlans, model: str) -> JobSpec:
    """The job, once its attempt has announced what it can change to."""
    plans.meet(spec(model), WORDS)
    return plans.offered(spec(model), WORDS)


def running(wanted: JobSpec, plan: str, size: int) -> Job:
    devices = tuple(Device("n", number) for number in range(size))
    held = Allocation(devices, plan_of(plan))
    return Job(wanted, 0, Phase.RUNNING, 0.0, 0.0, held)


def test_a_job_without_a_named_model_or_without_plans_is_left_as_it_is() -> None:
    plans = LivePlans(CLUSTER)
    for words in (WORDS, ("size", "devices"), ("plan",)):
        plans.meet(spec(""), words)
        assert plans.offered(spec(""), words) == spec("")
    for words in (("size", "devices"), ("plan",)):
        plans.meet(spec(), words)
        assert plans.offered(spec(), words) == spec(), "nothing is known of the model"


def test_only_plans_that_the_attempt_can_change_to_are_on_offer() -> None:
    offered = met(LivePlans(CLUSTER), "mine").plans
    assert offered[0] == Plan(data=4)
    assert offered[-1] == DATA_PARALLEL
    assert len(offered) > 4
    assert all(plan.pipeline == 1 for plan in offered)


def test_the_first_measured_step_sets_how_long_a_step_takes() -> None:
    plans = LivePlans(CLUSTER)
    wanted = met(plans, "mine")
    before = plans.version
    plans.observe(running(wanted, "", 2), steps_per_s=4.0)
    expected = plans.types["mine"].iteration_s(Plan(data=2), dense(2))
    assert expected == pytest.approx(0.25, rel=1e-3)
    assert plans.version > before, "what policies computed before is old"


def test_steps_under_other_plans_refit_the_factors() -> None:
    """In truth the optimizer takes fifty times as long as the catalogue says."""
    plans = LivePlans(CLUSTER)
    wanted = met(plans, "bert")
    known = plans.types["bert"]
    factors = replace(known.factors, k_opt=known.factors.k_opt * 50)
    truth = replace(known, factors=factors)
    lives = {"d1": 1, "d2": 2, "d4": 4, "d2 zero-2": 2, "d4 zero-2": 4, "d2 recompute": 2}
    lives |= {"d2 zero-2 offload": 2, "d1 x4": 1}

    def seconds(model: ModelType, text: str) -> float:
        return model.iteration_s(plan_of(text), dense(lives[text]), cores=plans.planner.cores)

    assert seconds(known, "d4") < 0.8 * seconds(truth, "d4")
    for text, size in [*lives.items(), *lives.items()]:
        plans.observe(running(wanted, text, size), 1.0 / seconds(truth, text))
    assert plans.version == 1
    for text in lives:
        assert seconds(plans.types["bert"], text) == pytest.approx(seconds(truth, text), rel=0.1)


def test_plans_have_room_for_the_nodes_that_are_there_now() -> None:
    """A controller may begin before any node has come."""
    plans = LivePlans(Cluster(()))
    before = plans.version
    plans.on(Cluster((Node("n", 2, device_memory_gib=24.0), Node("m", 4, device_memory_gib=80.0))))
    assert plans.planner.room.device_gib == 24.0
    assert plans.version > before, "what policies computed before is old"
    assert met(plans, "mine") == met(
        LivePlans(Cluster((Node("m", 4, device_memory_gib=24.0),))), "mine"
    )
    plans.on(Cluster((Node("m", 4, device_memory_gib=80.0),)))
    assert plans.planner.room.device_gib == 80.0
