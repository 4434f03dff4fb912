"""weave orders execution plans: the best one for the devices that a job is given."""

from dataclasses import replace

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobStarted, JobSubmitted
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.scheduler import Scheduler
from treadle.models.plans.best_plans import BestPlans
from treadle.models.plans.planned import PlannedModel, offering, standard
from treadle.models.plans.space import dense
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.testing.builders import job
from treadle.traces.workload import Workload

CLUSTER = Cluster((Node("n", 8),))
SLOW = Plan(pipeline=4, data=1)  # A model that needs no splitting.


def planned(name: str) -> tuple[Scheduler, JobSpec]:
    base = PlannedModel(standard(), ScalingModel.on(CLUSTER), node=8, even=False)
    chosen = policy(name, placement("consolidate"), TokenModel(base, StageTimes()))
    spec = JobSpec("a", 1e5, (4,), profile=Profile(model="roberta", size=4), plans=(SLOW,))
    return Scheduler(chosen, CLUSTER), offering(spec, standard(), 8, 8)


def step(scheduler: Scheduler, now: float, *facts: JobSubmitted) -> Allocation:
    for one in scheduler.step(facts, now):
        scheduler.take([JobStarted(one.job, one.id, 0.0, 1.0)], now)
    held = scheduler.jobs["a"].allocation
    assert held is not None
    return held


def best_on(size: int) -> Plan | None:
    found = standard().best("roberta", dense(size, 8))
    return None if found is None else found.plan


@pytest.mark.parametrize("name", ["weave", "weave-l"])
def test_a_job_runs_under_the_best_plan_for_its_size(name: str) -> None:
    scheduler, spec = planned(name)
    first = step(scheduler, 0.0, JobSubmitted(spec))
    assert first.plan == best_on(first.size) != SLOW
    second = step(scheduler, 1.0, JobSubmitted(JobSpec("b", 1e5)))
    assert second.plan == best_on(second.size)
    held = scheduler.jobs["b"].allocation
    assert held is None or held.plan == DATA_PARALLEL


def test_speeds_by_size_are_those_of_the_best_plan() -> None:
    base = PlannedModel(standard(), ScalingModel.on(CLUSTER), node=8, even=False)
    plans = BestPlans(base)
    plans.on(CLUSTER, base.alone)
    _, spec = planned("weave")
    kind, best = standard().types["roberta"], best_on(4)
    assert best is not None
    own_s, best_s = (kind.iteration_s(plan, (4,), cores=4.0) for plan in (SLOW, best))
    assert plans.alone(spec, 4) == pytest.approx(base.alone(spec, 4) * own_s / best_s)
    assert plans.alone(spec, 4) > 1.1 * base.alone(spec, 4)


@pytest.mark.parametrize("name", ["weave", "weave-l"])
@pytest.mark.parametrize("live", [False, True])
def test_a_job_that_asks_for_a_size_without_a_good_plan_runs(name: str, live: bool) -> None:
    """Its plan for five devices is not given to four."""
    jobs = [replace(job("a", size=5, tenant="A"), profile=Profile(size=5, model="gpt2"))]
    jobs.append(replace(job("b", size=4, at=1.0), profile=Profile(size=4, model="gpt2")))
    text = f"{name}?quotas=A:64" if live else name
    settings = Settings(policy=text, speeds="plans", live=live)
    experiment = prepare(Workload.of("made", jobs), CLUSTER, settings)
    experiment.finish()
    assert all(history.ended_at for history in experiment.recorder.histories.values())
