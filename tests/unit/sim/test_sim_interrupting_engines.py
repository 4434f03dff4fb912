"""The engine of the replications: every interval between two events pays the restart cost."""

from treadle.core.cluster import Cluster
from treadle.core.events import Event, JobFinished, JobProgressed
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import Effects, ScalingModel
from treadle.sim.costs import Constant
from treadle.sim.faults import Faults, FaultSettings
from treadle.sim.interrupting_engines import GroupInterruptingEngine, InterruptingEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import job, policy


def ends(*jobs, cost_s: float, cluster: Cluster, faults: Faults | None = None):
    """When each job ends, and the progress that was reported on the way."""
    finished: dict[str, float] = {}
    progress: list[tuple[float, str, float]] = []

    def observe(now: float, events: list[Event], actions, scheduler) -> None:
        for event in events:
            if isinstance(event, JobFinished):
                finished[event.job] = now
            elif isinstance(event, JobProgressed):
                progress.append((now, event.job, event.iterations_done))

    engine = InterruptingEngine(
        jobs, ScalingModel(), cost=Constant(cost_s), faults=faults or Faults(FaultSettings())
    )
    scheduler = Scheduler(policy("fifo"), cluster)
    Simulation(scheduler, engine, observers=(observe,)).run()  # type: ignore[arg-type]
    return finished, progress


def test_every_interval_pays_and_the_predicted_end_ignores_the_interval_to_come() -> None:
    """a takes 20 s, b arrives at 10 and takes 5; a restart takes 2.

    1. 0 to 10: a pays 2 and does 8; it is to end at 10 + 12 = 22.
    2. 10 to 15: b was to end at 15 and does; a pays 2 and does 3; it is to end at 15 + 9 = 24.
    3. Nothing else happens, so it ends then.
    """
    jobs = job("a", length_s=20.0), job("b", length_s=5.0, at=10.0)
    finished, progress = ends(*jobs, cost_s=2.0, cluster=Cluster.grid(1, 2))
    assert finished == {"b": 15.0, "a": 24.0}
    assert progress == [(10.0, "a", 8.0), (15.0, "a", 11.0)]


def test_an_interval_shorter_than_the_cost_brings_no_progress() -> None:
    jobs = job("a", length_s=20.0), job("b", length_s=5.0, at=1.0)
    finished, progress = ends(*jobs, cost_s=3.0, cluster=Cluster.grid(1, 2))
    assert progress[0] == (1.0, "a", 0.0)
    assert finished == {"b": 6.0, "a": 6.0 + 20.0 - 2.0}


def test_a_lost_node_is_survived() -> None:
    cluster = Cluster.grid(2, 1)
    settings = FaultSettings(seed=4, node_mtbf_s=50.0, node_repair_s=5.0, checkpoint_every_s=10.0)
    jobs = [job(f"j{number}", length_s=60.0, at=float(number)) for number in range(4)]
    finished, _ = ends(*jobs, cost_s=1.0, cluster=cluster, faults=Faults(settings, cluster))
    assert sorted(finished) == ["j0", "j1", "j2", "j3"]


def test_in_a_group_each_job_pays_for_all() -> None:
    """Two jobs share one device, 10 s each alone; a start takes 1 s, and c arrives at 6.

    Together they are half as fast. At 6 each has paid 2 and done (6 - 2) / 2 = 2.
    """
    progress: dict[str, float] = {}

    def observe(now: float, events: list[Event], actions, scheduler) -> None:
        if now == 6.0:
            progress.update(
                {e.job: e.iterations_done for e in events if isinstance(e, JobProgressed)}
            )

    jobs = (job("a", length_s=10.0), job("b", length_s=10.0), job("c", length_s=1.0, at=6.0))
    engine = GroupInterruptingEngine(jobs, ScalingModel(Effects(shared=0.5)), cost=Constant(1.0))
    scheduler = Scheduler(policy("muri-s?group=2&autopack=off"), Cluster.grid(1, 1))
    Simulation(scheduler, engine, observers=(observe,)).run(until=6.0)  # type: ignore[arg-type]
    assert progress == {"a": 2.0, "b": 2.0}
