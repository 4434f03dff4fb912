"""Which facts cause which orders, and which reports change nothing."""

from math import inf

import pytest

from tests.unit.stories import Story, Told, on
from treadle.core.actions import Change, Start, Stop
from treadle.core.errors import PolicyError
from treadle.core.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobProgressed,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDrained,
    NodeLost,
)
from treadle.core.lifecycle import Phase
from treadle.core.snapshot import KEEP, Schedule
from treadle.testing.builders import job
from treadle.testing.checks import check

# -- decisions -------------------------------------------------------------------------------------


def test_a_job_is_started_and_runs_and_ends() -> None:
    story = Story()
    assert story.tell(0.0, JobSubmitted(job("a", size=2))) == [Start(0, "a", on(0, 1))]
    assert story.phases() == "a:starting"
    story.tell(1.0, JobStarted("a", 0, 0.0, 2.0))
    row = story.scheduler.jobs["a"]
    assert (row.phase, row.iterations_at(11.0), row.service_at(11.0)) == (Phase.RUNNING, 20.0, 22.0)
    story.tell(51.0, JobFinished("a", 0))
    assert story.phases() == ""
    assert story.scheduler.tenancy.free.total == 4


def test_progress_never_causes_a_decision() -> None:
    story = Story(policy := Told(Schedule({"a": on(0)})))
    story.tell(0.0, JobSubmitted(job("a")))
    story.tell(0.0, JobStarted("a", 0, 0.0, 1.0))
    assert story.tell(5.0, JobProgressed("a", 0, 3.0, 0.5)) == []
    assert policy.asked_at == [0.0]
    assert story.scheduler.jobs["a"].iterations_at(7.0) == 4.0


def test_a_stop_that_was_ordered_and_reported_causes_no_second_decision() -> None:
    policy = Told(Schedule({"a": on(0)}), Schedule({"a": None, "b": on(0)}))
    story = Story(policy)
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    assert story.tell(4.0, JobSubmitted(job("b"))) == [Stop(1, "a"), Start(2, "b", on(0), ("a",))]
    assert story.tell(5.0, JobStopped("a", 1, 4.0)) == []
    assert policy.asked_at == [0.0, 4.0]
    assert story.phases() == "a:waiting b:starting"


def test_a_stop_is_news_if_a_decision_came_in_between() -> None:
    """1. a is ordered to stop.  2. c arrives; the policy cannot give a anything.  3. a stops."""
    policy = Told(Schedule({"a": on(0)}), Schedule({"a": None, "b": on(0)}))
    story = Story(policy)
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    story.tell(4.0, JobSubmitted(job("b")))
    story.tell(5.0, JobSubmitted(job("c")))
    story.tell(6.0, JobStopped("a", 1, 4.0))
    assert policy.asked_at == [0.0, 4.0, 5.0, 6.0]


def test_a_job_that_stops_by_itself_is_news() -> None:
    story = Story()
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    assert story.tell(7.0, JobStopped("a", 0, 6.0)) == [Start(1, "a", on(0))]
    assert story.scheduler.jobs["a"].iterations_done == 6.0


def test_where_no_job_overtakes_a_job_that_joins_behind_changes_nothing() -> None:
    story = Story("fifo")
    story.tell(0.0, JobSubmitted(job("a", size=3)))
    story.tell(1.0, JobSubmitted(job("b", size=2)))
    before = story.scheduler.decisions
    story.tell(2.0, JobSubmitted(job("c", size=1)))
    assert story.scheduler.decisions == before
    assert story.phases() == "a:starting b:waiting c:waiting"


def test_where_some_overtake_every_arrival_is_news() -> None:
    story = Story("backfill")
    story.tell(0.0, JobSubmitted(job("a", size=3)))
    story.tell(1.0, JobSubmitted(job("b", size=2)))
    assert story.tell(2.0, JobSubmitted(job("c", size=1))) == [Start(1, "c", on(3))]


def test_the_policy_is_asked_again_when_its_schedule_runs_out() -> None:
    policy = Told(Schedule({"a": on(0)}, valid_until=30.0))
    story = Story(policy)
    story.tell(0.0, JobSubmitted(job("a")))
    assert story.scheduler.wake_at == 30.0
    assert not story.scheduler.is_due(29.0)
    story.tell(30.0)
    assert policy.asked_at == [0.0, 30.0]
    assert story.scheduler.wake_at == inf


@pytest.mark.parametrize(
    "mistake",
    [
        Schedule({"a": None, "b": on(0, 1, 2)}),  # a size that b does not offer
        Schedule({"a": None, "nobody": on(1)}),
        Schedule({"b": on(0, 1)}),  # held by a
        Schedule({"a": None, "b": on(3, 4)}),  # the node has four devices
        Schedule({"a": None, "b": on(0, 1, node="n9")}),  # there is no such node
        Schedule({"a": None, "b": on(0, 1, node="n1")}),  # lost
        Schedule({"a": None}, valid_until=2.0),
        RuntimeError("a policy may raise anything"),
    ],
)
def test_a_policys_mistake_leaves_everything_as_it_was(mistake: Schedule | Exception) -> None:
    policy = Told(Schedule({"a": on(0, 1)}))
    story = Story(policy, "2x4")
    story.tell(0.0, JobSubmitted(job("a", size=2)), NodeLost("n1"))
    story.runs(0.0, "a")
    policy.answers.append(mistake)
    with pytest.raises((PolicyError, RuntimeError)):
        story.tell(2.0, JobSubmitted(job("b", size=2)))
    check(story.scheduler)
    assert story.phases() == "a:running b:waiting"
    assert story.free() == "n0:2 n0:3"
    policy.answers.append(Schedule({"b": on(2, 3)}))
    assert story.tell(3.0, JobSubmitted(job("c"))) == [Start(1, "b", on(2, 3))]


def test_the_devices_of_a_drained_node_cannot_be_handed_on() -> None:
    """a runs on n1, which is drained; b may not follow it there although a would let go."""
    policy = Told(
        Schedule({"a": on(0, node="n1")}), KEEP, Schedule({"a": None, "b": on(0, node="n1")})
    )
    story = Story(policy, "2x4")
    story.tell(0.0, JobSubmitted(job("a")))
    story.tell(1.0, NodeDrained("n1"))
    with pytest.raises(PolicyError, match="job b was given device n1:0"):
        story.tell(2.0, JobSubmitted(job("b")))


# -- late and repeated reports ---------------------------------------------------------------------


def moved() -> Story:
    """a was started by order 0, changed by 1 and is on its way to devices 1 and 2."""
    answers = Schedule({"a": on(0)}), Schedule({"a": on(1)})
    story = Story(Told(*answers))
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    assert story.tell(5.0, JobSubmitted(job("b"))) == [Change(1, "a", on(1))]
    return story


def test_a_job_on_its_way_to_other_devices_makes_no_progress() -> None:
    row = moved().scheduler.jobs["a"]
    assert (row.iterations_at(5.0), row.iterations_at(9.0)) == (5.0, 5.0)
    assert (row.held_at(9.0), row.service_at(9.0)) == (9.0, 9.0)


@pytest.mark.parametrize(
    "report",
    [
        JobStarted("a", 0, 1.0, 1.0),
        JobProgressed("a", 0, 1.0, 1.0),
        JobStopped("a", 0, 1.0),
        JobFinished("a", 0),
        JobFailed("a", 0, 1.0, "oops"),
        JobCancelled("a"),
    ],
)
def test_reports_of_a_job_that_has_ended_are_ignored(report: Event) -> None:
    story = Story()
    story.tell(0.0, JobSubmitted(job("a")))
    story.tell(5.0, JobFinished("a", 0))
    assert story.tell(6.0, report) == []
    assert story.phases() == ""


@pytest.mark.parametrize(
    "report",
    [
        JobStarted("a", 1, 1.0, 1.0),
        JobProgressed("a", 1, 1.0, 1.0),
        JobStopped("a", 1, 1.0),
        JobFinished("a", 1),
        JobFailed("a", 1, 1.0, "oops"),
    ],
)
def test_a_job_that_waits_again_is_not_moved_by_repetitions(report: Event) -> None:
    policy = Told(Schedule({"a": on(0)}), Schedule({"a": None}))
    story = Story(policy)
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    story.tell(4.0, JobSubmitted(job("b")))
    story.tell(5.0, JobStopped("a", 1, 4.0))
    before = story.scheduler.jobs["a"]
    assert story.tell(6.0, report) == []
    assert story.scheduler.jobs["a"] == before


def test_a_swap_survives_the_report_of_its_own_stop() -> None:
    """a is stopped and started again in one list; the stop's report is of the earlier attempt."""
    policy = Told(Schedule({"a": on(0), "b": on(1)}), Schedule({"a": on(1), "b": on(0)}))
    story = Story(policy)
    story.tell(0.0, JobSubmitted(job("a")), JobSubmitted(job("b")))
    story.runs(0.0, "a", "b")
    orders = story.tell(3.0, JobSubmitted(job("c")))
    assert orders == [Stop(2, "a"), Change(3, "b", on(0), ("a",)), Start(4, "a", on(1), ("a", "b"))]
    story.tell(4.0, JobStopped("a", 2, 3.0))
    assert story.phases() == "a:starting b:starting c:waiting"
    story.runs(5.0, "a", "b")
    assert story.phases() == "a:running b:running c:waiting"
