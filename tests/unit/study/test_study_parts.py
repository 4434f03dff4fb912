"""Each part of an analysis, on records few enough to be computed by hand."""

import pytest

from treadle.core.actions import Start
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.events import JobFailed, JobFinished, JobStarted, JobSubmitted
from treadle.core.retry import fixed
from treadle.failures.rules import shipped
from treadle.reports.recorder import Recorder
from treadle.study.analysis import analyse
from treadle.study.failure_costs import Judge, failures
from treadle.study.record import Record
from treadle.study.waits import waits
from treadle.testing.builders import job
from treadle.traces.workload import Workload

HERE, THERE = Device("n0", 0), Device("n1", 0)


def record(recorder: Recorder, **more: object) -> Record:
    workload = Workload.of("by hand", [story.spec for story in recorder.histories.values()])
    cluster = Cluster.grid(2, 1)
    values = {"how": "", "workload": workload, "cluster": cluster}
    return Record(recorder=recorder, **{**values, **more})  # type: ignore[arg-type]


@pytest.fixture
def failing() -> Record:
    """Two devices on two nodes.

    0 s    a (both devices, 100 s alone, two retries) starts at half its speed
    60 s   it fails of a full disk with nothing kept, starts again
    70 s   it fails of nothing that is known, starts again at full speed
    170 s  it finishes
    """
    recorder = Recorder(retry=fixed)
    both = Allocation((HERE, THERE))
    a = job("a", size=2, length_s=100, retries=2)
    recorder.step(0, [JobSubmitted(a)], [Start(0, "a", both)], free=0)
    recorder.step(0, [JobStarted("a", 0, 0, 0.5)], [], free=0)
    disk = "OSError: [Errno 28] No space left on device"
    recorder.step(60, [JobFailed("a", 0, 0, disk)], [Start(1, "a", both)], free=0)
    recorder.step(60, [JobStarted("a", 1, 0, 1)], [], free=0)
    recorder.step(70, [JobFailed("a", 1, 0)], [Start(2, "a", both)], free=0)
    recorder.step(70, [JobStarted("a", 2, 0, 1)], [], free=0)
    recorder.step(170, [JobFinished("a", 2)], [], free=2)
    recorder.close(170)
    return record(recorder)


def test_attempts_that_failed_are_counted_with_what_they_held(failing: Record) -> None:
    found = failures(failing)
    assert (found.attempts, found.jobs, found.lost_jobs, found.repeats) == (2, 1, 0, 1)
    assert found.gpu_h * 3600 == pytest.approx(140)
    assert found.repeats_gpu_h * 3600 == pytest.approx(20)
    assert found.share == pytest.approx(140 / 340)
    assert found.early == {"120": 1.0, "300": 1.0, "1200": 1.0}
    assert [(one.name, one.attempts) for one in found.by_class if one.attempts] == [
        ("resource", 1),
        ("unknown", 1),
    ]
    assert [(one.name, one.kind) for one in found.by_reason] == [
        ("disk-full", "resource"),
        ("no reason recorded", "unknown"),
    ]


def test_device_time_is_given_by_size_and_spread_with_its_progress(failing: Record) -> None:
    usage = analyse(failing).usage
    (use,) = usage.by_spread
    assert (use.size, use.nodes, use.holds, use.share) == ("2-4", "2", 3, 1.0)
    assert usage.gpu_h * 3600 == pytest.approx(340)
    assert use.progress == usage.progress == pytest.approx(200 / 340)
    assert usage.in_use == pytest.approx(1.0)


def test_a_reason_is_a_name_of_the_study_or_of_a_rule_or_text_that_rules_are_tried_on() -> None:
    judge = Judge(shipped())
    assert judge("incorrect inputs") == ("incorrect inputs", "deterministic")
    assert judge("gpu-out-of-memory") == ("gpu-out-of-memory", "resource")
    assert judge("torch.OutOfMemoryError: CUDA out of memory.") == ("gpu-out-of-memory", "resource")
    assert judge("it just stopped") == ("unexplained", "unknown")
    assert judge("") == ("no reason recorded", "unknown")


def test_a7_reasons_that_only_a_live_controller_gives_keep_their_names() -> None:
    judge = Judge(shipped())
    assert judge("memory-limit") == ("memory-limit", "resource")
    assert judge("not-launched") == ("not-launched", "deterministic")
    assert judge("engine-error") == ("engine-error", "transient")
    assert judge("time-limit") == ("time-limit", "resource")


def test_rules_of_a_user_come_first() -> None:
    own = "- {name: house-rule, class: transient, line: ['it just stopped'], says: Again.}"
    judge = Judge(shipped().extended("own.yaml", own))
    assert judge("it just stopped") == ("house-rule", "transient")


def test_waits_by_cause_leave_out_jobs_that_never_fit() -> None:
    recorder = Recorder()
    jobs = [job("runs", length_s=10), job("waits", length_s=5), job("huge", size=8, length_s=5)]
    start = Start(0, "runs", Allocation((HERE,)))
    recorder.step(0, [JobSubmitted(one) for one in jobs], [start], free=0, unfit={8: 1})
    then = Start(1, "waits", Allocation((HERE,)))
    recorder.step(10, [JobFinished("runs", 0)], [then], free=0, unfit={8: 1})
    recorder.step(15, [JobFinished("waits", 1)], [], free=1, unfit={8: 1})
    recorder.close(15)
    whole, *sizes = waits(record(recorder, unfit={"huge"}))
    assert (whole.jobs, whole.waited, whole.total_s, whole.mean_s) == (2, 1, 10, 5)
    assert whole.causes_s == {"devices": 10, "fragmentation": 0, "order": 0, "fair share": 0}
    assert [row.size for row in sizes] == ["1"]


def test_causes_that_are_not_recorded_are_none(failing: Record) -> None:
    whole, *_ = waits(record(failing.recorder, has_causes=False))
    assert whole.causes_s is None
    assert whole.share("devices") is None


def test_a_status_in_the_trace_overrides_the_simulated_one(failing: Record) -> None:
    said = record(failing.recorder, statuses={"a": "killed"})
    assert [(end.status, end.share) for end in analyse(said).ends] == [("killed", 1.0)]
