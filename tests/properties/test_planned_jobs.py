"""Jobs with plans: every one that can run ends, and nobody loses what it was promised."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.core.actions import Action, Stop
from treadle.core.cluster import Cluster
from treadle.core.events import Event
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.scheduler import Scheduler
from treadle.models.plans.planned import offering, standard
from treadle.models.plans.space import dense
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.testing.checks import check
from treadle.traces.workload import Workload

POLICIES = [
    "rubick",
    "rubick?gate=0&restart_s=0",
    "rubick?promises=off&gate=0",
    "rubick-e",
    "rubick-r",
    "rubick-n",
    "sia",
    "synergy",
    "srtf",
    "afs",
]
_quick = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.differing_executors]
)


@st.composite
def planned_jobs(draw: st.DrawFn) -> list[JobSpec]:
    """Jobs of the catalogue's models, among them some that nobody knows."""
    planner, jobs = standard(), []
    for number in range(draw(st.integers(1, 10))):
        model = draw(st.sampled_from(["bert", "vit", "gpt2", "t5", "llama7", "unknown"]))
        asked = draw(st.sampled_from([1, 2, 4, 8]))
        plans: tuple[Plan, ...] = (DATA_PARALLEL,)
        if model != "unknown":
            feasible = [c.plan for c in planner.candidates(model, dense(asked)) if c.feasible]
            plans = (draw(st.sampled_from(feasible)), DATA_PARALLEL)
        jobs.append(
            JobSpec(
                f"j{number}",
                float(draw(st.integers(1, 300))),
                sizes=(asked,),
                profile=Profile(size=asked, model=model),
                plans=plans,
                submit_at=float(draw(st.integers(0, 60))),
                guaranteed=draw(st.booleans()),
            )
        )
    return sorted(jobs, key=lambda spec: spec.submit_at)


@pytest.mark.parametrize("policy", POLICIES)
@_quick
@given(jobs=planned_jobs(), nodes=st.integers(1, 3), cost=st.sampled_from(["none", "20"]))
def test_every_job_that_can_run_ends_and_promises_are_kept(
    policy: str, jobs: list[JobSpec], nodes: int, cost: str
) -> None:
    cluster = Cluster.grid(nodes, 8)
    planner = standard()
    specs = {job.id: offering(job, planner, cluster.device_count, 8) for job in jobs}

    kept: set[str] = set()

    def observe(
        now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        check(scheduler)
        for action in actions:
            if isinstance(action, Stop):
                kept.discard(action.job)
                continue
            spec = specs[action.job]
            if not policy.startswith("rubick") or spec.profile.model == "unknown":
                continue
            seconds = planner.iteration_s(spec, action.allocation)
            assert seconds is not None
            if spec.guaranteed and "promises=off" not in policy and policy != "rubick-n":
                fast = seconds <= spec.profile.iteration_s * (1 + 1e-6)
                is_kept = fast or action.allocation.size >= spec.asked
                # Until its promise can be kept a job may run like any other, and never after that.
                assert is_kept or action.job not in kept
                if is_kept:
                    kept.add(action.job)

    chosen = Settings(policy=policy, speeds="plans", restart_cost=cost)
    run = prepare(Workload.of("w", jobs), cluster, chosen, observers=(observe,))
    summary = run.finish()
    assert summary.finished + len(run.simulation.scheduler.unfit) == len(jobs)
