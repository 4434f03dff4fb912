"""Plan models that are wrong at first are corrected by observed speeds."""

from statistics import fmean

import pytest

from treadle.core.allocation import Allocation, Host
from treadle.core.cluster import Cluster, Device
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.models.plans.belief import PlanBelief, believed, misjudged_types
from treadle.models.plans.planned import PlannedModel, offering, standard
from treadle.models.plans.sensitivity import Curves
from treadle.models.plans.space import dense
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel

TRUTH = standard()


def belief(*, spread: float = 0.7, seed: int = 1, learns: bool = True) -> PlanBelief:
    planner, refitting = believed(TRUTH, spread=spread, seed=seed)
    model = TokenModel(PlannedModel(planner, ScalingModel()), StageTimes())
    return PlanBelief(model, planner, refitting if learns else None)


def running(model: str, plan: Plan, size: int, cores: float = 4.0) -> tuple[Job, float]:
    """A job on one node, and how fast it really is."""
    spec = JobSpec(
        "a",
        1e6,
        sizes=(size,),
        profile=Profile(size=size, model=model),
        plans=(plan, DATA_PARALLEL),
    )
    spec = offering(spec, TRUTH, 8, 8)
    devices = tuple(Device("n0", number) for number in range(size))
    held = Allocation(devices, plan, host=Host(cores, 10.0))
    seconds = TRUTH.iteration_s(spec, held)
    assert seconds is not None
    return Job(spec, 0, Phase.RUNNING, 0.0, 0.0, held), 1.0 / seconds


def seen(model: str) -> list[tuple[Job, float]]:
    found = []
    for size in (1, 2, 4, 8):
        for candidate in TRUTH.candidates(model, dense(size)):
            if candidate.feasible and candidate.plan.accumulate == 1:
                cores = (2.0, 8.0) if candidate.plan.offload else (4.0,)
                found += [running(model, candidate.plan, size, each) for each in cores]
    return found


def error(believes: PlanBelief, model: str) -> float:
    wrong = []
    for job, speed in seen(model):
        assert job.allocation is not None
        seconds = believes.planner.iteration_s(job.spec, job.allocation)
        assert seconds is not None
        wrong.append(abs(seconds * speed - 1.0))
    return fmean(wrong)


@pytest.mark.parametrize("model", ["bert", "roberta"])
def test_what_was_wrong_is_fitted_again(model):
    believes = belief()
    before = error(believes, model)
    assert before > 0.1
    for job, speed in seen(model):
        believes.observe(job, speed)
    assert believes.version >= 1
    assert error(believes, model) < min(0.05, before / 3)


def test_errors_are_by_seed_and_within_what_a_fit_may_find():
    one, other = (misjudged_types(TRUTH.types, spread=2.0, seed=seed) for seed in (1, 2))
    assert one == misjudged_types(TRUTH.types, spread=2.0, seed=1)
    assert one != other
    assert all(1.0 <= model.factors.k_bwd <= 10.0 for model in one.values())


def test_curves_follow_the_belief_once_it_changes():
    believes = belief()
    job, _ = running("bert", Plan(data=8), 8)
    curves = Curves(believes)
    curves.on(Cluster.grid(1, 8))
    before = curves.of(job.spec)
    for other, speed in seen("bert"):
        believes.observe(other, speed)
    curves.on(Cluster.grid(1, 8))
    assert curves.of(job.spec) != before
