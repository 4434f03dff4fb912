"""How long a job is left alone after a change."""

import pytest

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec, Profile
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload


@pytest.mark.parametrize(("cost_s", "resized_at"), [(0.0, [100, 160]), (0.05, [100, 110])])
def test_a_job_whose_changes_cost_little_is_changed_again_soon(
    cost_s: float, resized_at: list[float]
) -> None:
    """1. It has four devices. 2. Two others come, 10 s apart, and each needs one of them."""
    profile = Profile(size=4, curve=((1, 4.0), (2, 2.0), (3, 1.4), (4, 1.0)), restart_s=cost_s)
    jobs = [
        JobSpec("a", 4000.0, (1, 2, 3, 4), asked=4, profile=profile),
        JobSpec("b", 4000.0, (1,), submit_at=100.0),
        JobSpec("c", 4000.0, (1,), submit_at=110.0),
    ]
    settings = Settings(policy="afs+steady")
    made = prepare(Workload.of("made", jobs), Cluster.grid(1, 4), settings, stopwatch=lambda: 0.0)
    made.finish()
    histories = made.recorder.histories
    assert [histories[name].first_start_at for name in ("b", "c")] == pytest.approx(
        [float(at) for at in resized_at], abs=1.0
    )


@pytest.mark.parametrize(("urgent", "started_at"), [(10, 110.0), (0, 160.0)])
def test_u14_a_rest_holds_no_devices_back_from_a_more_urgent_job(
    urgent: int, started_at: float
) -> None:
    """1. An elastic job has four devices, and a later one takes one of them. 2. Within the minute
    of rest that follows a gang comes: it waits for the end of the rest, unless it is urgent."""
    profile = Profile(size=4, curve=((1, 4.0), (2, 2.0), (3, 1.4), (4, 1.0)))
    jobs = [
        JobSpec("a", 4000.0, (1, 2, 3, 4), asked=4, profile=profile),
        JobSpec("b", 4000.0, (1,), submit_at=100.0),
        JobSpec("gang", 40.0, (2,), submit_at=110.0, priority=urgent),
    ]
    settings = Settings(policy="afs+priority+steady")
    made = prepare(Workload.of("made", jobs), Cluster.grid(1, 4), settings, stopwatch=lambda: 0.0)
    made.finish()
    assert made.recorder.histories["b"].first_start_at == pytest.approx(100.0, abs=1.0)
    gang = made.recorder.histories["gang"]
    assert gang.first_start_at == pytest.approx(started_at, abs=1.0)


@pytest.mark.parametrize(
    ("run_s", "after"), [(0, "a change of size; that is over in 50 s"), (120, "a start;")]
)
def test_it_says_after_what_the_job_is_left_alone(run_s: int, after: str) -> None:
    profile = Profile(size=4, curve=((1, 4.0), (2, 2.0), (3, 1.4), (4, 1.0)))
    at_s = 100.0 if run_s == 0 else 10.0
    jobs = [
        JobSpec("a", 4000.0, (1, 2, 3, 4), asked=4, profile=profile),
        JobSpec("b", 4000.0, (1,), submit_at=at_s),
        JobSpec("c", 4000.0, (1,), submit_at=at_s + 10.0),
    ]
    settings = Settings(policy=f"afs+steady?run_s={run_s}")
    made = prepare(Workload.of("made", jobs), Cluster.grid(1, 4), settings, stopwatch=lambda: 0.0)
    made.simulation.run(until=at_s + 10.0)
    said = made.simulation.scheduler.why("c", at_s + 10.0).sentence
    assert f"is left alone for a while after {after}" in said
