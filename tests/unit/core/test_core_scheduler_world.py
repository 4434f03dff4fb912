"""Failures, cancellations, nodes that come and go, twins and replays."""

from dataclasses import replace
from math import inf

import pytest

from tests.unit.stories import Story, Told, on
from treadle.core.actions import Start, Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDrained,
    NodeJoined,
    NodeLost,
)
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule
from treadle.testing import builders
from treadle.testing.builders import job
from treadle.testing.checks import check

# -- failures and cancellations --------------------------------------------------------------------


def test_a_failed_job_is_tried_again_as_often_as_it_may() -> None:
    story = Story()
    story.tell(0.0, JobSubmitted(job("a", retries=1)))
    story.runs(0.0, "a")
    assert story.tell(9.0, JobFailed("a", 0, 6.0, "oops")) == [Start(1, "a", on(0))]
    row = story.scheduler.jobs["a"]
    assert (row.failures, row.iterations_done, row.starts) == (1, 6.0, 2)
    story.runs(10.0, "a")
    assert story.tell(12.0, JobFailed("a", 1, 6.0, "oops")) == []
    assert story.phases() == ""
    assert story.scheduler.tenancy.free.total == 4


def test_a_cancelled_job_releases_its_devices_before_another_gets_them() -> None:
    """1. a is cancelled and ordered to stop.  2. b is started behind it.  3. a has stopped."""
    story = Story()
    story.tell(0.0, JobSubmitted(job("a", size=4)), JobSubmitted(job("b", size=4)))
    story.runs(0.0, "a")
    orders = story.tell(3.0, JobCancelled("a"))
    assert orders == [Stop(1, "a"), Start(2, "b", on(0, 1, 2, 3), ("a",))]
    assert story.phases() == "a:cancelling b:starting"
    assert story.tell(4.0, JobCancelled("a")) == []
    assert story.tell(4.0, JobStarted("a", 0, 0.0, 1.0)) == []
    story.tell(5.0, JobStopped("a", 1, 3.0))
    assert story.phases() == "b:starting"


@pytest.mark.parametrize(
    "end", [JobFinished("a", 0), JobFailed("a", 0, 1.0, "oops"), JobStopped("a", 1, 1.0)]
)
def test_a_cancelled_job_ends_however_it_ends(end: Event) -> None:
    story = Story()
    story.tell(0.0, JobSubmitted(job("a", retries=5)))
    story.tell(3.0, JobCancelled("a"))
    story.tell(4.0, end)
    assert story.phases() == ""


def test_a_stopping_job_that_is_cancelled_gets_no_second_order() -> None:
    policy = Told(Schedule({"a": on(0)}), Schedule({"a": None}))
    story = Story(policy)
    story.tell(0.0, JobSubmitted(job("a")))
    story.tell(4.0, JobSubmitted(job("b")))
    assert story.tell(5.0, JobCancelled("a")) == []
    assert story.scheduler.jobs["a"].phase is Phase.CANCELLING
    story.tell(6.0, JobStopped("a", 1, 0.0))
    assert story.phases() == "b:waiting"


# -- nodes -----------------------------------------------------------------------------------------


def test_jobs_of_a_lost_node_are_stopped_and_wait_again() -> None:
    """a and b run on n0 and n1. 1. n0 is lost: a must let go.  2. It has, and nothing is free."""
    story = Story("fifo", "2x4")
    story.tell(0.0, JobSubmitted(job("a", size=4)), JobSubmitted(job("b", size=4)))
    story.runs(0.0, "a", "b")
    assert story.tell(5.0, NodeLost("n0")) == [Stop(2, "a")]
    assert story.phases() == "a:stopping b:running"
    assert story.tell(6.0, JobStopped("a", 2, 0.0)) == []
    assert story.tell(9.0, JobFinished("b", 1)) == [Start(3, "a", on(0, 1, 2, 3, node="n1"))]


def test_what_runs_on_a_drained_node_runs_on() -> None:
    story = Story("fifo", "2x4")
    story.tell(0.0, JobSubmitted(job("a", size=2)))
    assert story.tell(1.0, NodeDrained("n0")) == []
    assert story.free() == "n1:0 n1:1 n1:2 n1:3"
    assert story.tell(2.0, JobFinished("a", 0)) == []
    assert story.free() == "n1:0 n1:1 n1:2 n1:3"


def test_a_job_that_can_be_resized_leaves_a_drained_node() -> None:
    """a has sizes, b cannot resume. 1. Their node is drained: a lets go.  2. It goes on elsewhere,
    and b runs on.
    """
    story = Story("fifo", "2x4")
    a = replace(job("a", size=2), sizes=(1, 2))
    b = replace(job("b", size=2), sizes=(1, 2), resumable=False)
    story.tell(0.0, JobSubmitted(a), JobSubmitted(b))
    story.runs(0.0, "a", "b")
    assert story.tell(1.0, NodeDrained("n0")) == [Stop(2, "a")]
    (start,) = story.tell(2.0, JobStopped("a", 2, 0.0))
    assert isinstance(start, Start)
    assert start.allocation.nodes() == ("n1",)
    assert story.phases() == "a:starting b:running"


def test_a_job_that_fits_nowhere_else_stays_on_a_drained_node() -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(replace(job("a", size=2), sizes=(1, 2))))
    assert story.tell(1.0, NodeDrained("n0")) == []


def test_a_drained_node_that_is_lost_stops_what_runs_there() -> None:
    story = Story("fifo", "2x4")
    story.tell(0.0, JobSubmitted(job("a", size=2)))
    story.tell(1.0, NodeDrained("n0"))
    assert story.tell(2.0, NodeLost("n0")) == [Stop(1, "a")]


def test_a_drained_node_that_returns_keeps_what_runs_there_booked() -> None:
    """1. n0 is drained while a runs there.  2. It returns: only the other half is free."""
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=2)))
    story.tell(1.0, NodeDrained("n0"))
    story.tell(2.0, NodeJoined(Node("n0", 4)))
    assert story.free() == "n0:2 n0:3"
    assert story.tell(3.0, JobSubmitted(job("b", size=2))) == [Start(1, "b", on(2, 3))]


def test_a_node_that_joins_twice_keeps_what_runs_there_booked() -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=2)))
    assert story.tell(1.0, NodeJoined(Node("n0", 4))) == []
    assert story.free() == "n0:2 n0:3"


def test_a_lost_node_that_returns_is_used_behind_those_who_have_not_let_go() -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=4)))
    story.runs(0.0, "a")
    assert story.tell(5.0, NodeLost("n0")) == [Stop(1, "a")]
    assert story.tell(6.0, NodeJoined(Node("n0", 4)), JobSubmitted(job("b", size=4))) == [
        Start(2, "b", on(0, 1, 2, 3), ("a",))
    ]


@pytest.mark.parametrize("event", [NodeLost("n9"), NodeDrained("n9")])
def test_a_node_that_was_never_here_cannot_go(event: Event) -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a")))
    assert story.tell(1.0, event) == []
    assert story.scheduler.cluster.device_count == 4


def test_a_job_that_never_fits_is_set_aside_and_comes_back_when_a_node_joins() -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("large", size=8)))
    assert story.scheduler.unfit == {"large": "it asks for 8 devices and the cluster has 4"}
    assert story.tell(1.0, JobSubmitted(job("a"))) == [Start(0, "a", on(0))], "it blocks nobody"
    story.tell(2.0, JobFinished("a", 0))
    orders = story.tell(3.0, NodeJoined(Node("n1", 4)))
    assert [(type(order), order.job) for order in orders] == [(Start, "large")]
    assert story.scheduler.unfit == {}


def test_a_waiting_job_that_no_longer_fits_is_set_aside() -> None:
    story = Story("fifo", "2x4")
    story.tell(0.0, JobSubmitted(job("a", size=4)), JobSubmitted(job("b", size=8)))
    story.tell(1.0, NodeLost("n1"))
    assert story.scheduler.unfit == {"b": "it asks for 8 devices and the cluster has 4"}
    story.tell(2.0, JobCancelled("b"))
    assert story.scheduler.unfit == {}


# -- who must let go first -------------------------------------------------------------------------


def test_after_names_jobs_that_were_ordered_to_stop_and_have_not_stopped() -> None:
    """1. a is ordered to stop.  2. Its devices look free.  3. b gets them, behind a."""
    policy = Told(Schedule({"a": on(0, 1)}), Schedule({"a": None}), Schedule({"b": on(1, 2)}))
    story = Story(policy)
    story.tell(0.0, JobSubmitted(job("a", size=2)))
    story.runs(0.0, "a")
    assert story.tell(1.0, JobSubmitted(job("b", size=2))) == [Stop(1, "a")]
    assert story.tell(2.0, JobSubmitted(job("c"))) == [Start(2, "b", on(1, 2), ("a",))]


def test_after_names_no_job_that_has_stopped_or_was_elsewhere() -> None:
    policy = Told(
        Schedule({"a": on(0), "b": on(1)}),
        Schedule({"a": None, "b": None}),
        Schedule({"c": on(0), "d": on(2)}),
    )
    story = Story(policy)
    story.tell(0.0, JobSubmitted(job("a")), JobSubmitted(job("b")))
    story.runs(0.0, "a", "b")
    story.tell(1.0, JobSubmitted(job("c")))
    story.tell(1.0, JobStopped("a", 2, 1.0))
    assert story.tell(2.0, JobSubmitted(job("d"))) == [Start(4, "c", on(0)), Start(5, "d", on(2))]


def test_a_job_moved_twice_leaves_two_places_until_it_runs() -> None:
    """a moves from 0 to 1 to 2 without a report; 0 and 1 are both still behind it."""
    policy = Told(
        Schedule({"a": on(0)}),
        Schedule({"a": on(1)}),
        Schedule({"a": on(2)}),
        Schedule({"b": on(0), "c": on(1)}),
        Schedule({"d": on(3)}),
    )
    story = Story(policy)
    for moment, name in enumerate("abc"):
        story.tell(float(moment), JobSubmitted(job(name)))
    assert story.tell(3.0, JobSubmitted(job("d"))) == [
        Start(3, "b", on(0), ("a",)),
        Start(4, "c", on(1), ("a",)),
    ]
    story.runs(4.0, "a")
    assert story.tell(5.0, JobSubmitted(job("e"))) == [Start(5, "d", on(3))]


def test_a_new_job_takes_an_idle_device_rather_than_wait_for_one_being_left() -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    story.tell(1.0, JobCancelled("a"))
    assert story.tell(2.0, JobSubmitted(job("b"))) == [Start(2, "b", on(1))]
    assert story.tell(2.0, JobSubmitted(job("c", size=3))) == [Start(3, "c", on(2, 3, 0), ("a",))]


# -- twins, other policies, replay -----------------------------------------------------------------


def test_another_policy_ranks_anew_and_touches_nothing_by_itself() -> None:
    """srtf would preempt `long`; fifo did not. A job that was set aside is judged anew."""
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("long", size=4, length_s=100.0)))
    story.tell(0.0, JobSubmitted(job("short", size=4, length_s=5.0)))
    story.tell(0.0, JobSubmitted(job("elastic", size=8, sizes=(1, 8))))
    story.tell(0.0, JobSubmitted(job("leaving", size=4)), JobCancelled("leaving"))
    story.runs(0.0, "long")
    assert "elastic" in story.scheduler.unfit
    story.scheduler.set_policy(builders.policy("srtf"), 1.0)
    check(story.scheduler)
    assert story.phases() == "long:running short:waiting elastic:waiting"
    assert "elastic" in story.scheduler.unfit
    orders = story.tell(1.0)
    assert [(type(order), order.job) for order in orders] == [(Stop, "long"), (Start, "short")]
    story.scheduler.set_policy(builders.policy("max-min"), 2.0)
    assert story.scheduler.unfit == {}, "max-min would run it on one device"
    check(story.scheduler)


def test_a_step_that_was_cut_off_before_its_orders_is_made_up_for() -> None:
    """The journal knows that n0 was lost and not that a was ordered to stop."""
    twin = Scheduler(builders.policy("fifo"), Cluster.grid(2, 4))
    twin.replay([JobSubmitted(job("a", size=4))], [Start(0, "a", on(0, 1, 2, 3))], 0.0, wake_at=inf)
    twin.replay([NodeLost("n0")], [], 5.0, wake_at=None)
    assert twin.step([], 6.0) == [Stop(1, "a")]
