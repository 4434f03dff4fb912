"""A scheduler that is written down and restored, and one that is forked."""

from math import inf

import pytest

from tests.unit.stories import Story, Told, on
from treadle.core.actions import Start, Stop
from treadle.core.apply import apply
from treadle.core.cluster import Device
from treadle.core.events import (
    DeviceClosed,
    DeviceOpened,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobProgressed,
    JobReleased,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDrained,
    NodeLost,
)
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule
from treadle.testing.builders import job
from treadle.testing.checks import check

D3 = Device("n0", 3)


def restored(story: Story, now: float, decider: Policy | None = None) -> Story:
    """What is written down of every job, read by a new process."""
    old = story.scheduler
    again = Story("fifo")
    again.scheduler = Scheduler(decider or old.policy, old.cluster)
    kept = [old.kept(identity) for identity in old.jobs]
    again.scheduler.restore(kept, old.closed, old.counters, now)
    check(again.scheduler)
    return again


def facts(scheduler: Scheduler) -> tuple[object, ...]:
    """All that can be seen from outside, as values."""
    return (
        dict(scheduler.rows),
        dict(scheduler.unfit),
        dict(scheduler.blocked),
        dict(scheduler.closed),
        dict(scheduler.drained),
        dict(scheduler.leaving),
        list(scheduler.must_stop),
        scheduler.counters,
        [identity for _, _, identity in scheduler.ranking.queue],
        [identity for _, _, identity in scheduler.ranking.from_the_back(9.0)],
        list(scheduler.tenancy.free),
        {device: dict(turns) for device, turns in scheduler.tenancy.tenants.items()},
    )


def crowded() -> Story:
    """One job of every kind on four devices: running, starting, waiting, blocked, too large."""
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("runs", size=2)))
    story.runs(0.0, "runs")
    story.tell(1.0, JobSubmitted(job("starts")), DeviceClosed(D3, "too hot"))
    story.tell(2.0, JobSubmitted(job("waits", size=2)), JobSubmitted(job("large", size=9)))
    story.tell(3.0, JobSubmitted(job("blocked")), JobHeld("blocked", "x"))
    return story


# -- restored --------------------------------------------------------------------------------------


def test_everything_is_as_it_was() -> None:
    story = crowded()
    assert facts(restored(story, 3.0).scheduler) == facts(story.scheduler)


def test_ids_and_arrivals_go_on_where_they_were() -> None:
    story = crowded()
    again = restored(story, 3.0)
    assert again.scheduler.counters == (2, 5)
    orders = again.tell(4.0, JobFinished("runs", 0))
    assert orders == [Start(2, "waits", on(0, 1))]
    again.tell(5.0, JobSubmitted(job("new")))
    assert again.scheduler.jobs["new"].sequence == 5


def test_the_first_occasion_is_a_decision() -> None:
    story = Story(Told())
    story.tell(0.0, JobSubmitted(job("a")))
    again = restored(story, 1.0, decider=Told(Schedule({"a": on(0)})))
    assert again.scheduler.is_due(1.0)
    assert again.tell(1.0) == [Start(0, "a", on(0))]


@pytest.mark.parametrize("fact", [JobHeld("a", "x"), JobCancelled("a")])
def test_a_stop_that_was_owed_is_ordered(fact: Event) -> None:
    """The fact was stored, and the process died before the order was."""
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    apply(story.scheduler, [fact], 1.0)
    assert restored(story, 2.0).scheduler.take([], 2.0) == [Stop(1, "a")]


def test_a_running_job_owes_no_stop() -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a")), JobSubmitted(job("b", size=4)))
    story.runs(0.0, "a")
    assert restored(story, 1.0).scheduler.take([], 1.0) == []


def test_a_stop_ordered_before_the_crash_is_news_when_it_is_reported() -> None:
    """1. a is ordered to stop at the first decision but one.  2. The process dies and is restored.
    3. It decides as often as the first had.  4. a has stopped: the policy must be asked again.
    """
    story = Story(Told(Schedule({"a": on(0)}), Schedule({"a": None})))
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    assert story.tell(1.0, JobSubmitted(job("b"))) == [Stop(1, "a")]
    decider = Told()
    again = restored(story, 2.0, decider=decider)
    for moment in (2.0, 3.0):
        again.tell(moment, JobSubmitted(job(f"new{moment:g}")))
    assert again.scheduler.decisions == story.scheduler.decisions
    again.tell(4.0, JobStopped("a", 1, 1.0))
    assert decider.asked_at == [2.0, 3.0, 4.0]


def test_devices_that_a_job_was_ordered_off_are_still_waited_for() -> None:
    story = Story(Told(Schedule({"a": on(0)}), Schedule({"a": None})))
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    story.tell(1.0, JobSubmitted(job("b")))
    again = restored(story, 2.0, decider=Told(Schedule({"b": on(0)})))
    assert again.tell(2.0) == [Start(2, "b", on(0), ("a",))]
    assert again.scheduler.in_the_way("b") == ["a"]


# -- forked ----------------------------------------------------------------------------------------


CHANGES: dict[str, tuple[Event, ...]] = {
    "a submission": (JobSubmitted(job("new")),),
    "an end": (JobFinished("runs", 0),),
    "a start": (JobStarted("starts", 1, 0.0, 1.0),),
    "a block": (JobHeld("waits", "y"),),
    "a release": (JobReleased("blocked", "x"),),
    "a cancellation": (JobCancelled("large"),),
    "an order to stop": (JobHeld("runs", "y"),),
    "a closed device": (DeviceClosed(Device("n0", 2), "y"),),
    "an opened device": (DeviceOpened(D3),),
    "a lost node": (NodeLost("n0"),),
    "a drained node": (NodeDrained("n0"),),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_happens_to_one_does_not_happen_to_its_twin(change: str) -> None:
    for first_changes in (True, False):
        story = crowded()
        twin = story.scheduler.fork()
        before = facts(story.scheduler)
        assert facts(twin) == before
        changed, other = (story.scheduler, twin) if first_changes else (twin, story.scheduler)
        changed.step(CHANGES[change], 4.0)
        assert facts(changed) != before
        assert facts(other) == before
        check(other)


# -- reports of an earlier attempt -----------------------------------------------------------------


@pytest.mark.parametrize(
    "late",
    [
        JobStarted("a", 0, 1.0, 1.0),
        JobProgressed("a", 0, 1.0, 1.0),
        JobStopped("a", 0, 1.0),
        JobFinished("a", 0),
        JobFailed("a", 0, 1.0, "oops"),
        JobStarted("a", 2, 1.0, 1.0),
        JobProgressed("a", 2, 1.0, 1.0),
        JobStopped("a", 2, 1.0),
        JobFinished("a", 2),
        JobFailed("a", 2, 1.0, "oops"),
    ],
)
def test_a_survivor_of_an_earlier_attempt_cannot_speak_for_the_present_one(late: Event) -> None:
    """a ran by order 0, was stopped by 2, and runs again by 3: reports on 0 and 2 are late."""
    answers = Schedule({"a": on(0), "b": on(1)}), Schedule({"a": None}), Schedule({"a": on(2)})
    story = Story(Told(*answers))
    story.tell(0.0, JobSubmitted(job("a")), JobSubmitted(job("b")))
    story.runs(0.0, "a", "b")
    assert story.tell(1.0, JobSubmitted(job("c"))) == [Stop(2, "a")]
    story.tell(2.0, JobStopped("a", 2, 1.0))
    assert story.tell(3.0, JobSubmitted(job("d"))) == [Start(3, "a", on(2))]
    story.runs(3.0, "a")
    before = facts(story.scheduler)
    assert story.tell(4.0, late) == []
    assert facts(story.scheduler) == before


# -- replayed --------------------------------------------------------------------------------------


def test_a_replay_gives_the_same_state_after_every_step() -> None:
    """The policy stops a for b; n0 is lost, so b must stop whatever the policy decides."""
    answers = (
        Schedule({"a": on(0)}, valid_until=50.0),
        Schedule({"a": None, "b": on(0)}, valid_until=60.0),
        Schedule({"a": on(1, node="n1")}, valid_until=70.0),
    )
    story = Story(Told(*answers), "2x2")
    twin = Scheduler(Told(), story.scheduler.cluster)
    steps: list[tuple[float, Event]] = [
        (0.0, JobSubmitted(job("a"))),
        (0.0, JobStarted("a", 0, 0.0, 1.0)),
        (1.0, JobSubmitted(job("b"))),
        (2.0, JobStopped("a", 1, 1.0)),
        (3.0, NodeLost("n0")),
        (4.0, JobStopped("b", 3, 0.0)),
    ]
    for now, event in steps:
        before = story.scheduler.decisions
        actions = story.tell(now, event)
        asked = story.scheduler.decisions != before
        wake_at = story.scheduler.wake_at if asked else None
        twin.replay(iter([event]), iter(actions), now, wake_at=wake_at)
        assert facts(twin) == facts(story.scheduler)
        assert (twin.decisions, twin.wake_at) == (
            story.scheduler.decisions,
            story.scheduler.wake_at,
        )
        assert twin.is_due(now) == story.scheduler.is_due(now)
    assert "b" in story.scheduler.jobs


def test_after_a_policy_failed_the_next_fact_is_the_next_occasion() -> None:
    story = Story(policy := Told(Schedule(valid_until=30.0), RuntimeError("oops")))
    story.tell(0.0, JobSubmitted(job("a")))
    with pytest.raises(RuntimeError, match="oops"):
        story.tell(30.0)
    assert story.scheduler.wake_at == inf
    assert not story.scheduler.is_due(31.0)
    story.tell(32.0, JobSubmitted(job("b")))
    assert policy.asked_at == [0.0, 30.0, 32.0]
