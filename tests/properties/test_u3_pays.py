"""Under any arrivals, what is stopped or grows gains by it, and every job still ends."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.sim.costs import Constant
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import policy
from treadle.testing.strategies import clusters, workloads


class Watched(Wrapper):
    """Checks every decision about jobs that run."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        schedule = self.inner.decide(snapshot)
        model = ScalingModel.on(snapshot.cluster)
        for identity, after in schedule.changes.items():
            job = snapshot.jobs[identity]
            if job.phase is not Phase.RUNNING:
                continue
            left_s = job.remaining_at(snapshot.now) / job.iterations_per_s
            restart_s = job.spec.profile.restart_s
            assert left_s > 2 * restart_s, f"{identity} ends in {left_s:g} s"
            if after is not None and after.size > job.size:
                after_s = job.remaining_at(snapshot.now) / model.alone(job.spec, after.size)
                assert after_s + restart_s <= left_s * (1 + 1e-9), f"{identity} loses by its growth"
        return schedule


@pytest.mark.parametrize("text", ["srtf", "afs", "max-min", "las", "tiresias?limits=4:9", "rubick"])
@settings(max_examples=25, deadline=None)
@given(cluster=clusters(), jobs=workloads(), restart_s=st.sampled_from([1.0, 3.0, 10.0]))
def test_u3_no_change_of_a_running_job_loses(
    text: str, cluster: Cluster, jobs: list[JobSpec], restart_s: float
) -> None:
    jobs = [replace(j, profile=replace(j.profile, restart_s=restart_s)) for j in jobs]
    model = ScalingModel.on(cluster)
    scheduler = Scheduler(Watched(policy(f"{text}+pays", belief=model)), cluster)
    engine = SimulatedEngine(jobs, model, cost=Constant(restart_s))
    Simulation(scheduler, engine).run(1e6)
    assert set(scheduler.jobs) == set(scheduler.unfit)
