"""Whatever policies are told of lengths and speeds, everything ends and nothing is booked twice."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.events import Event
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.policies import registry
from treadle.reports.run_history import JobHistory
from treadle.sim.experiment import prepare
from treadle.sim.settings import BELIEFS, Settings
from treadle.testing.checks import check
from treadle.testing.strategies import clusters, workloads
from treadle.traces.workload import Workload

_quick = settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.differing_executors]
)
_spreads = st.one_of(st.just(0.0), st.floats(0.0, 3.0), st.floats(0.0, 1e9))


def checked(scheduler: Scheduler) -> None:
    """`check`, in which a job that runs longer than was told counts as at its end."""
    twin = scheduler.fork()
    for identity, job in scheduler.jobs.items():
        assert job.remaining_at(job.observed_at) >= 0.0
        if job.iterations_done > job.spec.iterations:
            twin.rows[identity] = job._replace(iterations_done=job.spec.iterations)
    check(twin)


def played(
    jobs: list[JobSpec], cluster: Cluster, chosen: Settings
) -> tuple[list[tuple[float, Action]], dict[str, JobHistory], set[str]]:
    """The orders, what became of each job, and who never fits."""
    log: list[tuple[float, Action]] = []

    def observe(
        now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        checked(scheduler)
        log.extend((now, action) for action in actions)

    run = prepare(Workload.of("w", jobs), cluster, chosen, observers=(observe,))
    run.simulation.run(until=1e6)
    return log, run.recorder.histories, set(run.simulation.scheduler.unfit)


@pytest.mark.parametrize("policy", registry.BUILT_IN)
@_quick
@given(
    jobs=workloads(),
    cluster=clusters(),
    length_error=_spreads,
    belief_error=_spreads,
    belief=st.sampled_from(BELIEFS),
    seed=st.integers(0, 5),
)
def test_every_job_that_fits_ends_after_its_true_work(
    policy: str,
    jobs: list[JobSpec],
    cluster: Cluster,
    length_error: float,
    belief_error: float,
    belief: str,
    seed: int,
) -> None:
    chosen = Settings(
        policy=policy,
        belief=belief,
        belief_error=0.0 if belief == "prior" else belief_error,
        length_error=0.0 if belief == "learned" else length_error,  # There they are hidden.
        seed=seed,
    )
    log, stories, unfit = played(jobs, cluster, chosen)
    for spec in jobs:
        story = stories[spec.id]
        assert story.spec is spec
        if spec.id in unfit:
            continue
        assert story.status == "finished", spec.id
        assert story.ended_at is not None
        assert story.first_start_at is not None
        # No job of these runs faster than linearly from the size that it was measured at.
        fastest_s = spec.iterations * spec.asked / spec.sizes[-1]
        assert story.ended_at - story.first_start_at >= fastest_s * (1 - 1e-9)
    assert played(jobs, cluster, chosen)[0] == log
