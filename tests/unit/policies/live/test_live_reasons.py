"""Why a job waits, or has what it has, under the live decision: the binding one, without asking."""

from dataclasses import replace

import pytest

from tests.unit.stories import Story
from treadle.core.apply import GROW_AGAIN_S
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobFinished, JobStarted, JobStopped, JobSubmitted
from treadle.core.job import JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.core.reasons import CODES, Reason
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies.live.decide import Live, remembered
from treadle.policies.live.patience import LENGTHS, WAIT_S
from treadle.policies.live.reasons import patience_of
from treadle.testing.builders import job, policy


def one_device(text: str = "srtf+live") -> Story:
    """`a` runs on the only device, 100 s of its 1000 s."""
    told = Story(text, "1x1")
    spec = job("a", length_s=1000.0)
    told.tell(0.0, JobSubmitted(replace(spec, profile=Profile(restart_s=100.0))))
    told.runs(0.0, "a")
    return told


def test_no_policy_decides_to_find_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    told = one_device("weave-l+live")
    told.tell(100.0, JobSubmitted(job("b")), JobSubmitted(job("c", size=2)))

    def refuse(_self: object, _snapshot: Snapshot) -> Schedule:
        raise AssertionError("it decides")

    monkeypatch.setattr(Live, "decide", refuse)
    monkeypatch.setattr(type(told.scheduler.policy.inner), "decide", refuse)  # type: ignore[attr-defined]
    found = [told.scheduler.why(name, 100.0) for name in told.scheduler.jobs]
    for reason in found:
        assert set(reason.numbers) <= set(CODES[reason.code])


def test_a_start_that_does_not_pay_names_what_it_would_cost() -> None:
    """900 s are left of a; b would gain 400 s by its restart of 100 s, if it took no time."""
    told = one_device()
    told.tell(550.0, JobSubmitted(job("b", length_s=100.0)))
    reason = told.scheduler.why("b", 550.0)
    assert reason.code == "cost"
    assert reason.numbers["jobs"] == ("a",)
    assert (reason.numbers["cost_s"], reason.numbers["gain_s"]) == (100.0, 350.0)


def test_a_job_that_was_preempted_names_for_whom() -> None:
    told = one_device()
    stop, _ = told.tell(100.0, JobSubmitted(job("b", length_s=50.0)))
    told.tell(101.0, JobStopped("a", stop.id, 0.0))
    told.runs(101.0, "b")
    found = Reason("preempted", {"for_job": "b", "since_s": 9.0})
    assert told.scheduler.why("a", 110.0) == found
    told.scheduler.take([JobFinished("b", told.scheduler.jobs["b"].action)], 150.0)
    assert told.scheduler.why("a", 150.0) == Reason("rank", {"ahead": 0})


def test_devices_that_are_reserved_are_named_with_their_job() -> None:
    told = Story("backfill+live", "1x4")
    told.tell(0.0, JobSubmitted(replace(job("long", size=2, length_s=5000.0), resumable=False)))
    told.runs(0.0, "long")
    told.tell(0.0, JobSubmitted(job("gang", size=4, length_s=10.0)))
    snapshot = told.scheduler.snapshot(0.0)
    due = {"overtakes": 0, "most": 8, "in_s": WAIT_S + LENGTHS * 10.0}
    last = remembered(snapshot.memory)
    found = patience_of(ScalingModel(), last, snapshot, snapshot.jobs["gang"])
    assert found == Reason("patience", due)
    for number in range(8):
        told.tell(1.0, JobSubmitted(job(f"s{number}", length_s=5.0)))
        told.runs(1.0, f"s{number}")
        told.tell(1.0, JobFinished(f"s{number}", told.scheduler.jobs[f"s{number}"].action))
    told.tell(1.0, JobSubmitted(replace(job("x", length_s=9000.0), resumable=False)))
    numbers = {"devices": 4, "free": 2, "in_s": 4999.0}
    own = Reason("reservation", {**numbers, "holders": ("long",)})
    assert told.scheduler.why("gang", 1.0) == own
    kept = Reason("reserved", {"for_job": "gang", "devices": 4, "in_s": 4999.0})
    assert told.scheduler.why("x", 1.0) == kept


def test_growth_that_does_not_pay_yet_is_named() -> None:
    """b leaves a device, and a would need a restart of 100 s to use it."""
    told = Story("max-min+live", "1x2")
    profile = Profile(restart_s=100.0, curve=((1, 2.0), (2, 1.0)))
    told.tell(0.0, JobSubmitted(job("b", length_s=10.0)))
    told.runs(0.0, "b")
    told.tell(0.0, JobSubmitted(JobSpec("a", 500.0, (1, 2), asked=2, profile=profile)))
    told.runs(0.0, "a")
    told.tell(10.0, JobFinished("b", told.scheduler.jobs["b"].action))
    reason = told.scheduler.why("a", 10.0)
    assert reason.code == "could-grow"
    assert (reason.numbers["size"], reason.numbers["next"], reason.numbers["free"]) == (1, 2, 1)
    assert reason.numbers["cost_s"] == 100.0


def test_a1_growth_that_failed_is_tried_again_after_a_while() -> None:
    """1. b leaves a device, and a is to grow. 2. Its new rank fails: a has what it had, and another
    job gets the device. 3. Later a grows again."""
    told = Story("max-min+live", "1x2")
    profile = Profile(restart_s=1.0, resize_s=0.1, curve=((1, 2.0), (2, 1.0)))
    told.tell(0.0, JobSubmitted(job("b", length_s=10.0)))
    told.runs(0.0, "b")
    told.tell(0.0, JobSubmitted(JobSpec("a", 5000.0, (1, 2), asked=2, profile=profile)))
    told.runs(0.0, "a")
    told.tell(100.0, JobFinished("b", told.scheduler.jobs["b"].action))
    row = told.scheduler.jobs["a"]
    assert row.size == 2
    refused = JobStarted("a", row.action, 100.0, 0.5, ("size",), refused="rank 1 ended")
    told.tell(101.0, refused)
    row = told.scheduler.jobs["a"]
    assert (row.size, row.phase, told.scheduler.tenancy.free.total) == (1, Phase.RUNNING, 1)
    told.tell(102.0, JobSubmitted(job("c", length_s=10.0)))
    assert told.scheduler.jobs["c"].size == 1
    told.runs(102.0, "c")
    told.tell(112.0, JobFinished("c", told.scheduler.jobs["c"].action))
    assert told.scheduler.jobs["a"].size == 1
    told.tell(101.0 + GROW_AGAIN_S + 1.0)
    assert told.scheduler.jobs["a"].size == 2


def test_what_alone_keeps_a_job_from_free_devices_is_the_reason() -> None:
    """Devices of two types are free, and more of the other."""
    nodes = (Node("n0", 4, device_type="a100", memory_gib=64.0), Node("n1", 2, device_type="h200"))
    scheduler = Scheduler(policy("backfill+live"), Cluster(nodes))
    h200 = replace(job("h", size=2), device_types=("h200",))
    scheduler.step([JobSubmitted(h200)], 0.0)
    waits = [replace(h200, id="type"), replace(job("host"), host_memory_gib=60.0)]
    scheduler.step([JobSubmitted(replace(job("first"), host_memory_gib=60.0))], 1.0)
    scheduler.step(
        [
            JobSubmitted(replace(spec, device_types=spec.device_types or ("a100",)))
            for spec in waits
        ],
        2.0,
    )
    found = {name: scheduler.why(name, 2.0).code for name in ("type", "host")}
    assert found == {"type": "type", "host": "host"}
