"""Every number of a summary against one computed by hand."""

import json

import pytest

from treadle.core.actions import Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.events import (
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeLost,
)
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.reports.comparison import Comparison
from treadle.reports.metrics import finish_time_fairness
from treadle.reports.recorder import Recorder
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation, rounds
from treadle.testing.builders import job, policy

D0, D1 = Device("n0", 0), Device("n0", 1)


def test_completion_times_are_from_submission_to_finish(recorder, run_of):
    summary = run_of(recorder).summary  # 10, 12 and 28 s
    assert summary.jct_mean_s == pytest.approx(50 / 3)
    assert summary.jct_p50_s == 12
    assert summary.jct_p90_s == pytest.approx(24.8)
    assert summary.jct_p99_s == pytest.approx(27.68)


def test_makespan_and_use_of_devices(recorder, run_of):
    summary = run_of(recorder).summary
    assert (summary.makespan_s, summary.end_s) == (30, 30)
    assert summary.utilization == pytest.approx(44 / 60)  # 20 + 8 + 16 device-seconds
    assert summary.efficiency == pytest.approx(44 / 60)
    assert summary.queue_length_mean == pytest.approx(16 / 30)
    assert summary.queue_length_max == 2


def test_efficiency_counts_progress_and_not_presence(run_of):
    recorder = Recorder(lambda spec, speed: speed)
    start = Start(0, "a", Allocation((D0, D1)))
    recorder.step(0, [JobSubmitted(job("a", length_s=5, size=2))], [start], free=0)
    recorder.step(2, [JobStarted("a", 0, 0, 0.5)], [], free=0)
    recorder.step(12, [JobFinished("a", 0)], [], free=2)
    summary = run_of(recorder).summary
    assert summary.utilization == 1
    assert summary.efficiency == pytest.approx(10 * 0.5 / 24)


def test_work_that_is_done_again_is_no_progress(run_of):
    recorder = Recorder(lambda spec, speed: speed)
    spec = job("a", length_s=12, retries=1)
    held = Allocation((D0,))
    recorder.step(0, [JobSubmitted(spec)], [Start(0, "a", held)], free=1)
    recorder.step(0, [JobStarted("a", 0, 0, 1)], [], free=1)
    recorder.step(6, [NodeLost("n9")], [Stop(1, "a")], free=2)
    recorder.step(6, [JobStopped("a", 1, 4)], [Start(2, "a", held)], free=1)
    recorder.step(6, [JobStarted("a", 2, 4, 1)], [], free=1)
    recorder.step(10, [JobFailed("a", 2, 5, "?")], [Start(3, "a", held)], free=1)
    recorder.step(10, [JobStarted("a", 3, 5, 1)], [], free=1)
    recorder.step(17, [JobFinished("a", 3)], [], free=2)
    summary = run_of(recorder).summary
    assert summary.utilization == 17 / 34
    assert summary.efficiency == pytest.approx(12 / 34)
    assert [hold.iterations for hold in recorder.holds] == [4, 1, 7]


def test_blocking_index_weighs_the_wait_by_the_work_that_is_left(recorder, run_of):
    # b: 8 s of waiting before 4 s of work, 8·8/2/4 = 8; c: 8·8/2/20 = 1.6; 16 s waited in all.
    assert run_of(recorder).summary.blocking_index == pytest.approx(9.6 / 16)


def test_finish_time_fairness_compares_with_an_equal_share(recorder, run_of):
    # Unfinished jobs: 1 until 2 s, 3 until 10 s, 2 until 14 s, 1 until 30 s.
    rho = {name: finish_time_fairness(story, 2) for name, story in recorder.histories.items()}
    assert rho["a"] == pytest.approx(5 / 13)  # a share of 2/2.6 of the 2 devices it asked for
    assert rho["b"] == pytest.approx(2.25)
    assert rho["c"] == pytest.approx(1.4)
    summary = run_of(recorder).summary
    assert summary.fairness_mean == pytest.approx((5 / 13 + 2.25 + 1.4) / 3)
    assert summary.fairness_p99 == pytest.approx(1.4 + 0.98 * 0.85)
    assert summary.fairness_max == pytest.approx(2.25)
    assert summary.unfair_share == pytest.approx(2 / 3)


def test_waits_are_shared_out_by_cause_and_size(run_of):
    """Two devices are free, a job of two is stuck at the head of the queue for 5 s.

    1. big (4 devices) waits for devices.
    2. head (2 devices) waits because the free ones do not suit it.
    3. twin (2 devices) and small (1 device) wait behind it.
    """
    recorder = Recorder()
    sizes = {"big": 4, "head": 2, "twin": 2, "small": 1}
    facts = [JobSubmitted(job(name, length_s=9, size=size)) for name, size in sizes.items()]
    recorder.step(0, facts, [], free=2, head=2)
    recorder.close(5)
    summary = run_of(recorder).summary
    assert summary.wait_causes == {
        "devices": 0.25,
        "fragmentation": 0.25,
        "order": 0.5,
        "fair share": 0,
    }
    third = pytest.approx(1 / 3)
    assert summary.wait_causes_by_size == {
        "1": {"devices": 0, "fragmentation": 0, "order": 1, "fair share": 0},
        "2-4": {"devices": third, "fragmentation": third, "order": third, "fair share": 0},
        "5-8": None,
        ">8": None,
    }


def test_jobs_held_back_for_other_tenants_wait_for_fair_share(run_of):
    """Three jobs of two devices wait for 4 s, two of them for their tenant's share."""
    recorder = Recorder()
    facts = [JobSubmitted(job(name, length_s=9, size=2)) for name in "abc"]
    recorder.step(0, facts, [], free=1, held_back={2: 2})
    recorder.close(4)
    assert recorder.wait_s == {("devices", 2): 4, ("fair share", 2): 8}
    assert "fair share" in Comparison("", "", [], Cluster.grid(1, 2), [run_of(recorder)]).causes()


def test_jobs_that_never_fit_are_no_part_of_the_queue(run_of):
    recorder = Recorder()
    huge = job("huge", length_s=9, size=16)
    start = Start(0, "a", Allocation((D0,)))
    recorder.step(0, [JobSubmitted(huge), JobSubmitted(job("a", length_s=4))], [start], free=1)
    recorder.step(4, [JobFinished("a", 0)], [], free=2)
    recorder.close(4)
    summary = run_of(recorder, never_fit=["huge"]).summary
    assert (summary.jobs, summary.finished, summary.never_fit, summary.unfinished) == (2, 1, 1, 0)
    assert (summary.queue_length_mean, summary.queue_length_max) == (0, 0)
    assert summary.wait_causes is None
    assert summary.blocking_index is None


def test_a_job_that_ran_before_its_node_was_lost_is_unfinished_and_not_never_fit(run_of):
    recorder = Recorder()
    start = Start(0, "a", Allocation((D0, D1)))
    recorder.step(0, [JobSubmitted(job("a", length_s=9, size=2))], [start], free=0)
    recorder.step(4, [NodeLost("n0")], [Stop(1, "a")], free=0)
    recorder.step(4, [JobStopped("a", 1, 0)], [], free=0)
    recorder.close(6)
    run = run_of(recorder, never_fit=["a"])
    assert (run.summary.never_fit, run.summary.unfinished) == (0, 1)
    assert run.summary.wait_causes is not None
    assert list(run.waiting()) == [0, 1]


def test_a_run_without_jobs_has_nulls_and_no_nan(run_of):
    summary = run_of(Recorder()).summary
    text = json.dumps(summary.as_dict(), allow_nan=False)
    assert summary.jobs == 0
    assert summary.jct_mean_s is summary.utilization is summary.fairness_mean is None
    assert '"makespan_s": null' in text


def test_disturbance_is_counted(run_of):
    """a is preempted once and loses a node once; each stop costs the work since its checkpoint."""
    recorder = Recorder()
    hold = Allocation((D0,))
    recorder.step(0, [JobSubmitted(job("a", length_s=100))], [Start(0, "a", hold)], free=1)
    recorder.step(0, [JobStarted("a", 0, 0, 1)], [], free=1)
    recorder.step(20, [], [Stop(1, "a")], free=2)
    recorder.step(20, [JobStopped("a", 1, 20)], [], free=2)
    recorder.step(30, [], [Start(2, "a", hold)], free=1)
    recorder.step(30, [JobStarted("a", 2, 20, 1)], [], free=1)
    recorder.step(66, [NodeLost("n0")], [Stop(3, "a")], free=0)
    recorder.step(66, [JobStopped("a", 3, 20)], [], free=0)
    recorder.close(70)
    summary = run_of(recorder).summary
    assert (summary.preemptions, summary.interruptions, summary.restarts) == (1, 1, 1)
    assert summary.lost_gpu_h == pytest.approx(36 / 3600)
    assert recorder.histories["a"].waited_s == 10 + 4


def test_a_job_cancelled_while_it_runs_is_cancelled_and_not_preempted(run_of):
    recorder = Recorder()
    recorder.step(
        0, [JobSubmitted(job("a", length_s=50))], [Start(0, "a", Allocation((D0,)))], free=1
    )
    recorder.step(5, [JobCancelled("a")], [Stop(1, "a")], free=2)
    recorder.step(6, [JobStopped("a", 1, 5)], [], free=2)
    recorder.close(9)
    summary = run_of(recorder).summary
    assert (summary.cancelled, summary.preemptions, summary.unfinished) == (1, 0, 0)
    assert recorder.histories["a"].ended_at == 5
    assert list(recorder.series.waiting) == [0, 0, 0]


def test_a_job_that_fails_while_it_stops_waits_once(run_of):
    recorder = Recorder()
    facts = [JobSubmitted(job("a", length_s=50, retries=1))]
    recorder.step(0, facts, [Start(0, "a", Allocation((D0,)))], free=1)
    recorder.step(5, [], [Stop(1, "a")], free=2)
    recorder.step(6, [JobFailed("a", 0, 0)], [], free=2)
    assert list(recorder.series.waiting) == [0, 1, 1]
    assert run_of(recorder).summary.failures == 1


def test_waiting_and_running_add_up_to_the_completion_time_even_in_rounds():
    jobs = [job(f"j{n}", length_s=37 + 11 * n, size=1 + n % 2, at=7.0 * n) for n in range(12)]
    cluster = Cluster.grid(1, 2)
    model = ScalingModel.on(cluster)
    recorder = Recorder()
    simulation = Simulation(
        Scheduler(policy("srtf", place="count"), cluster),
        SimulatedEngine(jobs, model),
        look=rounds(10),
        observers=[lambda now, e, a, s: recorder.step(now, e, a, free=s.tenancy.free.total)],
    )
    simulation.run()
    recorder.close(simulation.now)
    for story in recorder.histories.values():
        assert story.ended_at is not None
        held_s = story.service_s / story.spec.asked
        assert story.ended_at - story.submitted_at == pytest.approx(story.waited_s + held_s)


def test_a_job_that_swaps_devices_in_one_step_does_not_wait(run_of):
    """It stops and starts at once; the report of the stop comes after the start."""
    recorder = Recorder()
    recorder.step(
        0, [JobSubmitted(job("a", length_s=5))], [Start(0, "a", Allocation((D0,)))], free=1
    )
    recorder.step(2, [], [Stop(1, "a"), Start(2, "a", Allocation((D1,)))], free=1)
    recorder.step(2, [JobStopped("a", 1, 2.0), JobStarted("a", 2, 2.0, 1.0)], [], free=1)
    recorder.step(5, [JobFinished("a", 2)], [], free=2)
    summary = run_of(recorder).summary
    assert (summary.queue_mean_s, summary.utilization) == (0, 0.5)
    assert [(hold.from_at, hold.to_at) for hold in recorder.holds] == [(0, 2), (2, 5)]
