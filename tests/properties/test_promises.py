"""No guaranteed job is below its promise for longer than a decision while its quota suffices."""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.scheduler import Scheduler
from treadle.models.plans.planned import PlannedModel, offering, standard
from treadle.models.plans.space import dense
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.replications.rubick_promises import Promises
from treadle.sim.costs import Constant
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.checks import check

PLANNER = standard()
NODES = 3
MODELS = ("vit", "bert", "roberta", "gpt2", "t5", "llama7")


@st.composite
def tenants_jobs(draw: st.DrawFn) -> list[JobSpec]:
    """Jobs of two tenants: those of the first are guaranteed."""
    jobs: list[JobSpec] = []
    for number in range(draw(st.integers(1, 14))):
        model, size = draw(st.sampled_from(MODELS)), draw(st.sampled_from((1, 2, 4, 8, 16)))
        legal = [c.plan for c in PLANNER.candidates(model, dense(size)) if c.feasible]
        if not legal:
            continue
        spec = JobSpec(
            f"j{number}",
            float(draw(st.integers(10, 4000))),
            sizes=(size,),
            profile=Profile(size=size, model=model),
            plans=(draw(st.sampled_from(legal)), DATA_PARALLEL),
            submit_at=float(draw(st.integers(0, 2000))),
        )
        jobs.append(of_tenant(spec, promised=draw(st.booleans())))
    return sorted(jobs, key=lambda job: job.submit_at)


def of_tenant(spec: JobSpec, *, promised: bool) -> JobSpec:
    """The job with all sizes and plans, of the tenant with a quota or of the other."""
    owned = replace(spec, guaranteed=promised, tenant="A" if promised else "B")
    return offering(owned, PLANNER, 8 * NODES, 8)


def data_parallel(name: str, model: str, size: int, iterations: float, submit_at: float) -> JobSpec:
    """A job whose user asked for copies of the model without sharding."""
    return JobSpec(
        name,
        iterations,
        sizes=(size,),
        profile=Profile(size=size, model=model),
        plans=(Plan(data=size), DATA_PARALLEL),
        submit_at=submit_at,
    )


def one_near_its_end() -> list[JobSpec]:
    """A job of 16 runs on 8, at 94 % of its promised speed, until job a ends and its quota covers
    16. By then it has less than a second left, and a restart takes 78 s.
    """
    return [
        of_tenant(data_parallel("a", "bert", 1, 1038.0, 0.0), promised=True),
        of_tenant(data_parallel("b", "vit", 16, 1097.0, 105.0), promised=True),
        of_tenant(data_parallel("c", "vit", 1, 10.0, 161.0), promised=False),
    ]


def of_eight() -> JobSpec:
    """A guaranteed job of eight devices under the best plan, which makes eight its least."""
    best = PLANNER.best("bert", (8,))
    assert best is not None
    spec = JobSpec(
        "a",
        1e4,
        sizes=(8,),
        profile=Profile(size=8, model="bert"),
        plans=(best.plan, DATA_PARALLEL),
        tenant="A",
    )
    return offering(spec, PLANNER, 8 * NODES, 8)


def watched(jobs: list[JobSpec], text: str, quota: float) -> Promises:
    cluster = Cluster.grid(NODES, 8)
    truth = PlannedModel(PLANNER, ScalingModel())
    scheduler = Scheduler(policy(text, placement("consolidate"), ScalingModel()), cluster)
    promises = Promises({"A": quota})
    run = Simulation(
        scheduler,
        SimulatedEngine(jobs, truth, cost=Constant(78.0)),
        observers=(promises, lambda *_: check(scheduler)),
    )
    run.run()
    assert set(scheduler.jobs) == set(scheduler.unfit), "everybody who could run has ended"
    return promises


@given(tenants_jobs(), st.sampled_from((8, 16, 24)))
@example(jobs=one_near_its_end(), quota=16)
@settings(max_examples=40, deadline=None)
def test_promises_are_kept_while_the_quota_suffices(jobs: list[JobSpec], quota: int) -> None:
    assert not watched(jobs, f"rubick?quotas=A:{quota}", quota).broken


def test_the_watch_sees_what_is_broken() -> None:
    """A policy that promises nothing breaks promises, and the watch must notice."""
    crowd = [
        replace(of_eight(), id=f"b{n}", submit_at=float(n), guaranteed=n == 9) for n in range(10)
    ]
    assert watched(crowd, "fifo", 24.0).broken == {"b9"}


def test_a_running_job_with_much_left_is_owed_its_promise() -> None:
    """Without promises job b keeps its 8 devices for hours, though its quota covers 16."""
    a, b, c = one_near_its_end()
    assert watched([a, replace(b, iterations=1e6), c], "rubick?promises=off", 16.0).broken == {"b"}
