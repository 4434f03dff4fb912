"""A running job is stopped or changed only if that pays, in small stories."""

from dataclasses import replace

import pytest

from tests.unit.stories import Story, play
from treadle.core.actions import Start, Stop
from treadle.core.cluster import Cluster
from treadle.core.events import JobFinished, JobStarted, JobSubmitted, TrainingEnded
from treadle.core.job import JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.policies import registry
from treadle.policies.live.eligibility import OVER_S
from treadle.testing.builders import job, policy

CURVE = ((1, 4.0), (2, 2.0), (3, 1.4), (4, 1.0))


def starts(text: str, *jobs: JobSpec, cluster: str = "1x4") -> dict[str, float]:
    words = [line.split() for line in play(text, list(jobs), cluster)]
    return {name: float(at) for at, what, name, *_ in reversed(words) if what == "start"}


def elastic(**costs: float) -> JobSpec:
    profile = Profile(size=4, curve=CURVE, **costs)  # type: ignore[arg-type]
    return JobSpec("a", 4000.0, (1, 2, 3, 4), asked=4, profile=profile)


def test_a_job_whose_changes_cost_little_is_changed_again_soon() -> None:
    """It has four devices. Two others come, 10 s apart, and each needs one of them."""
    b, c = (JobSpec(name, 4000.0, (1,), submit_at=at) for name, at in (("b", 100.0), ("c", 110.0)))
    begun = starts("afs+live", elastic(resize_s=0.05, restart_s=5.0), b, c)
    assert (begun["b"], begun["c"]) == (100.0, 110.0)


@pytest.mark.parametrize("cost_s", [0.0, 30.0], ids=["unknown", "dear"])
def test_an_urgent_job_does_not_ask_what_it_costs_others(cost_s: float) -> None:
    gang = JobSpec("gang", 40.0, (2,), submit_at=110.0, priority=10)
    b = JobSpec("b", 4000.0, (1,), submit_at=100.0)
    assert starts("afs+live", elastic(restart_s=cost_s), b, gang)["gang"] == 110.0


@pytest.mark.parametrize(("at", "stopped"), [(30.0, True), (50.0, True), (79.0, False)])
def test_a_job_is_stopped_only_if_that_gains_four_times_what_it_costs(
    at: float, stopped: bool
) -> None:
    """`a` takes 100 s and 10 s to restart; `b` takes 5 s and arrives at that second."""
    a = replace(job("a"), profile=Profile(restart_s=10.0))
    b = job("b", length_s=5.0, at=at)
    assert f"{at:g} stop a" in play("srtf", [a, b], "1x1"), "without the rule it is always stopped"
    assert (f"{at:g} stop a" in play("srtf+live", [a, b], "1x1")) is stopped


def test_a_job_grows_on_free_devices_if_that_gains_twice_what_it_costs() -> None:
    """`a` gets slower at 100 s, for `b`, which ends at 160 s; a fourth device is worth 2/7."""
    b = JobSpec("b", 60.0, (1,), submit_at=100.0)
    told = play("afs+live", [elastic(restart_s=20.0, resize_s=20.0), b], "1x4")
    assert "240 change a n0:0,1,2,3" in told, "140 s x 2/7 = 2 x 20 s"


@pytest.mark.parametrize("text", registry.names())
@pytest.mark.parametrize("priority", [0, 5])
def test_a_job_that_cannot_resume_is_never_stopped(text: str, priority: int) -> None:
    told = Story(f"{text}+live", "1x1")
    told.tell(0.0, JobSubmitted(replace(job("a", length_s=1e6), resumable=False)))
    told.runs(0.0, "a")
    told.tell(500.0, JobSubmitted(replace(job("b", length_s=1.0), priority=priority)))
    told.tell(5000.0)
    assert told.phases() == "a:running b:waiting"


def test_a_job_whose_training_is_over_ends_by_itself() -> None:
    """An urgent job waits for it, and not for ever."""
    told = Story("fifo+live", "1x1")
    told.tell(0.0, JobSubmitted(job("a")))
    told.runs(0.0, "a")
    told.tell(100.0, TrainingEnded("a", told.scheduler.jobs["a"].attempt))
    told.tell(101.0, JobSubmitted(replace(job("b", length_s=5.0), priority=5)))
    assert told.phases() == "a:running b:waiting"
    actions = told.tell(100.0 + OVER_S, JobSubmitted(job("c")))
    assert {(type(action), action.job) for action in actions} == {(Stop, "a"), (Start, "b")}


@pytest.mark.parametrize("text", ["afs+live", "backfill+live", "srtf+live"])
def test_no_job_is_stopped_for_a_device_while_another_is_free(text: str) -> None:
    """1. Three jobs run; a gang of priority 1 waits, for which there is never room beside `first`.
    2. b ends, and c arrives with priority 1: b's device is free, and no other job is touched."""

    def ranked(name: str, priority: int, size: int = 1, length_s: float = 5000.0) -> JobSpec:
        return replace(job(name, size=size, length_s=length_s), priority=priority)

    def begin(now: float, *specs: JobSpec) -> None:
        begun = scheduler.step([JobSubmitted(spec) for spec in specs], now)
        scheduler.step([JobStarted(one.job, one.id, 0.0, 1.0) for one in begun], now)

    scheduler = Scheduler(policy(text), Cluster.grid(1, 3))
    begin(0.0, ranked("first", 2))
    begin(1.0, ranked("a", 0), ranked("b", 0))
    begin(2.0, ranked("wide", 1, size=3, length_s=10.0))
    ended = JobFinished("b", scheduler.jobs["b"].action)
    actions = scheduler.step([ended, JobSubmitted(ranked("c", 1, length_s=10.0))], 100.0)
    assert [f"{type(action).__name__} {action.job}" for action in actions] == ["Start c"]


def test_an_order_says_for_whom_a_job_is_stopped_or_shrunk() -> None:
    told = Story("srtf+live", "1x1")
    told.tell(0.0, JobSubmitted(job("a", length_s=5000.0)))
    told.runs(0.0, "a")
    stop, start = told.tell(500.0, JobSubmitted(job("b", length_s=5.0)))
    assert isinstance(stop, Stop)
    assert (stop.job, stop.for_job, start.job) == ("a", "b", "b")


@pytest.mark.parametrize("name", ["weave-l", "srtf", "fifo", "afs"])
def test_an_urgent_job_that_comes_while_another_starts_has_its_device_once_it_runs(
    name: str,
) -> None:
    told = Story(f"{name}+live", "1x1")
    (begun,) = told.tell(0.0, JobSubmitted(job("low", length_s=20_000.0)))
    urgent = replace(job("urgent", length_s=8.0), priority=5)
    assert told.tell(10.0, JobSubmitted(urgent)) == []
    found = told.tell(30.0, JobStarted("low", begun.id, 0.0, 1.0))
    assert [(type(action), action.job) for action in found] == [(Stop, "low"), (Start, "urgent")]


def test_a_policy_that_begins_anew_once_there_are_no_jobs_does_so() -> None:
    """AITurbo gives the first job all devices in a full round, and so the next one."""
    profile = Profile(size=1, curve=CURVE)
    a, b = (
        JobSpec(name, 20.0, (1, 2, 3, 4), asked=1, submit_at=at, profile=profile)
        for name, at in (("a", 0.0), ("b", 100.0))
    )
    begun = [line for line in play("aiturbo+live", [a, b], "1x4") if "start" in line]
    assert begun == ["0 start a n0:0,1,2,3", "100 start b n0:0,1,2,3"]
