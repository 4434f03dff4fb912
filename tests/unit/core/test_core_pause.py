"""Paused jobs compute nothing, leave their devices to others, and go on where they were."""

from dataclasses import replace

import pytest

from tests.unit.stories import Story, Told, on
from treadle.core.actions import Change, Start, Stop
from treadle.core.allocation import Allocation, Pause
from treadle.core.cluster import Cluster, Node
from treadle.core.errors import PolicyError
from treadle.core.events import (
    JobCancelled,
    JobFinished,
    JobHeld,
    JobPaused,
    JobReleased,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeLost,
)
from treadle.core.job import JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule
from treadle.testing.builders import job
from treadle.testing.checks import check

FROZEN = on(0).as_paused(Pause.FROZEN)
BOTH = (Pause.FROZEN, Pause.SUSPENDED)


def running(*answers: Schedule, pauses: tuple[Pause, ...] = BOTH) -> Story:
    """Job a runs on device 0 since 0 s, and the policy goes on with these answers."""
    story = Story(Told(Schedule({"a": on(0)}), *answers), "1x2")
    story.tell(0.0, JobSubmitted(job("a", length_s=100.0)))
    story.tell(0.0, JobStarted("a", 0, 0.0, 1.0, pauses=pauses))
    return story


def paused() -> Story:
    """Job a was paused after 10 s for job b, which has its device since 11 s."""
    story = running(Schedule({"a": FROZEN, "b": on(0)}, for_whom={"a": "b"}))
    orders = story.tell(10.0, JobSubmitted(job("b")))
    assert orders == [Change(1, "a", FROZEN), Start(2, "b", on(0), ("a",))]
    assert [each.for_job for each in orders if isinstance(each, Change)] == ["b"]
    story.tell(11.0, JobPaused("a", 1, Pause.FROZEN))
    story.runs(11.0, "b")
    return story


def test_a_job_that_makes_room_is_paused_and_goes_on_where_it_was() -> None:
    story = paused()
    row = story.scheduler.jobs["a"]
    assert (row.phase, row.allocation, row.size) == (Phase.PAUSED, FROZEN, 0)
    assert (row.iterations_done, row.held_at(50.0), row.service_at(50.0)) == (10.0, 10.0, 10.0)
    assert row.waited_at(31.0) == 20.0
    assert [name for _, _, name in story.scheduler.ranking.queue] == ["a"]
    seen = story.scheduler.snapshot(31.0).jobs["a"]
    assert (seen.phase, seen.allocation, seen.parked) == (Phase.WAITING, None, FROZEN)
    told = story.scheduler.policy
    assert isinstance(told, Told)
    told.answers = [Schedule({"a": on(0)})]
    assert story.tell(31.0, JobFinished("b", 2)) == [Change(3, "a", on(0))]
    story.tell(32.0, JobStarted("a", 3, 10.0, 1.0, pauses=BOTH))
    row = story.scheduler.jobs["a"]
    assert (row.phase, row.starts, row.waited_s) == (Phase.RUNNING, 1, 20.0)
    assert row.iterations_at(40.0) == 18.0


def test_a_job_that_could_not_be_paused_keeps_its_devices() -> None:
    """1. b is to have the device of a. 2. a cannot be paused: the start of b is taken back."""
    story = running(Schedule({"a": FROZEN, "b": on(0)}))
    story.tell(10.0, JobSubmitted(job("b")))
    assert story.tell(11.0, JobStarted("a", 1, 10.0, 1.0, refused="no")) == [Stop(3, "b")]
    row = story.scheduler.jobs["a"]
    assert (row.phase, row.allocation, row.pauses) == (Phase.RUNNING, on(0), ())
    story.tell(12.0, JobStopped("b", 3, 0.0))
    assert story.phases() == "a:running b:waiting"
    assert story.free() == "n0:1"


def test_a_job_that_could_not_go_on_is_tried_again_later() -> None:
    story = paused()
    told = story.scheduler.policy
    assert isinstance(told, Told)
    told.answers = [Schedule({"a": on(0)})]
    story.tell(20.0, JobFinished("b", 2))
    story.tell(21.0, JobPaused("a", 3, Pause.FROZEN, refused="its memory is taken"))
    row = story.scheduler.jobs["a"]
    assert (row.phase, row.allocation, row.ready_at > 21.0) == (Phase.PAUSED, FROZEN, True)
    assert story.free() == "n0:0 n0:1"


def test_a_person_pauses_a_job_and_lets_it_go_on() -> None:
    story = running()
    suspended = on(0).as_paused(Pause.SUSPENDED)
    held = JobHeld("a", "user", Pause.SUSPENDED, by="ada")
    assert story.tell(10.0, held) == [Change(1, "a", suspended)]
    story.tell(15.0, JobPaused("a", 1, Pause.SUSPENDED))
    assert story.scheduler.jobs["a"].phase is Phase.PAUSED
    assert "a" not in story.scheduler.snapshot(15.0).jobs  # It is blocked.
    assert "a" in story.scheduler.snapshot(15.0).paused
    story.tell(99.0, JobReleased("a", "user"))
    assert story.scheduler.snapshot(99.0).jobs["a"].parked == suspended
    assert story.scheduler.jobs["a"].waited_at(100.0) == 1.0  # Not while it was blocked.


def test_a_hold_that_pauses_never_stops_a_job_that_cannot_be_paused() -> None:
    story = running(pauses=())
    assert story.tell(10.0, JobHeld("a", "user", Pause.FROZEN)) == []
    assert story.scheduler.blocked == {}
    assert story.tell(11.0, JobHeld("a", "user")) == [Stop(1, "a")]


@pytest.mark.parametrize(
    ("pauses", "resumable", "order"),
    [
        (BOTH, False, Change(1, "a", on(0).as_paused(Pause.SUSPENDED))),
        ((Pause.FROZEN,), True, Change(1, "a", FROZEN)),
        ((), True, Stop(1, "a")),
        ((), False, None),
    ],
)
def test_a_job_that_is_starting_is_paused_once_it_runs(
    pauses: tuple[Pause, ...], resumable: bool, order: Change | Stop | None
) -> None:
    """It may turn out then that it cannot be: it is stopped if it loses nothing, else it runs."""
    story = Story(Told(Schedule({"a": on(0)})), "1x2")
    story.tell(0.0, JobSubmitted(replace(job("a"), resumable=resumable)))
    assert story.tell(1.0, JobHeld("a", "user", Pause.SUSPENDED)) == []
    other = Scheduler(Told(), Cluster.grid(1, 2))
    other.restore([story.scheduler.kept("a")], {}, story.scheduler.counters, 1.0)
    for scheduler in (story.scheduler, other):
        orders = scheduler.step([JobStarted("a", 0, 0.0, 1.0, pauses=pauses)], 2.0)
        assert orders == ([] if order is None else [order])
        assert ("a" in scheduler.blocked) == (order is not None)
        check(scheduler)


def test_a_pause_of_a_job_that_is_starting_can_be_taken_back() -> None:
    story = Story(Told(Schedule({"a": on(0)})), "1x2")
    story.tell(0.0, JobSubmitted(job("a")))
    story.tell(1.0, JobHeld("a", "user", Pause.FROZEN))
    assert story.tell(2.0, JobReleased("a", "user")) == []
    assert story.tell(3.0, JobStarted("a", 0, 0.0, 1.0, pauses=BOTH)) == []
    assert story.phases() == "a:running"


def test_a_paused_job_that_is_held_stays_paused() -> None:
    story = paused()
    assert story.tell(12.0, JobHeld("a", "user")) == []
    assert story.scheduler.jobs["a"].phase is Phase.PAUSED


def test_paused_jobs_end_by_an_order_like_others() -> None:
    for fact in (JobCancelled("a"), NodeLost("n0")):
        story = paused()
        assert Stop(3, "a") in story.tell(12.0, fact)
        story.tell(13.0, JobStopped("a", 3, 10.0))
        assert "a:paused" not in story.phases()


def test_a_state_with_paused_jobs_can_be_restored() -> None:
    one = paused().scheduler
    one.blocked["a"] = ("user",)
    one.ranking.drop("a")
    other = Scheduler(Told(), Cluster.grid(1, 2))
    other.restore([one.kept(name) for name in one.jobs], {}, one.counters, 12.0)
    check(other)
    assert dict(other.jobs) == dict(one.jobs)
    assert other.take([], 12.0) == []


@pytest.mark.parametrize(
    "wrong",
    [on(1).as_paused(Pause.FROZEN), on(0).as_paused(Pause.SUSPENDED), replace(FROZEN, turn=1)],
)
def test_a_job_is_paused_where_it_is_and_as_it_can_be(wrong: Allocation) -> None:
    story = running(Schedule({"a": wrong}), pauses=(Pause.FROZEN,))
    with pytest.raises(PolicyError):
        story.tell(10.0, JobSubmitted(job("b")))


def test_what_is_frozen_on_a_device_keeps_its_memory() -> None:
    def large(name: str, gib: float) -> JobSpec:
        return replace(job(name), device_memory_gib=gib)

    for gib, fits in ((40.0, True), (41.0, False)):
        told = Told(Schedule({"a": on(0)}), Schedule({"a": FROZEN, "b": on(0)}))
        scheduler = Scheduler(told, Cluster((Node("n0", 1, device_memory_gib=80.0),)))
        scheduler.step([JobSubmitted(large("a", 40.0))], 0.0)
        scheduler.step([JobStarted("a", 0, 0.0, 1.0, pauses=BOTH)], 0.0)
        if fits:
            assert len(scheduler.step([JobSubmitted(large("b", gib))], 1.0)) == 2
        else:
            with pytest.raises(PolicyError, match="memory"):
                scheduler.step([JobSubmitted(large("b", gib))], 1.0)
