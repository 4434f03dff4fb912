"""What a scheduler knows: which reports it believes, what a fork shares, what is left of orders.

What it restores is in test_core_restore.py, and what holds jobs back in test_core_blocked.py.
"""

from dataclasses import replace
from math import inf

import pytest

from tests.unit.stories import Story, Told, on
from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.events import (
    DeviceClosed,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeLost,
)
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.core.ranking import Rank
from treadle.core.retry import Answer, Failure
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule
from treadle.testing import builders
from treadle.testing.builders import job
from treadle.testing.checks import check

# -- the fence against reports of an earlier attempt -----------------------------------------------


def test_the_end_of_an_attempt_counts_although_a_change_is_on_its_way() -> None:
    story = Story(Told(Schedule({"a": on(0)}), Schedule({"a": on(1)})))
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    assert story.tell(1.0, JobSubmitted(job("b"))) == [Change(1, "a", on(1), ())]
    story.tell(2.0, JobFinished("a", 0))
    assert "a" not in story.scheduler.jobs


# -- forks -----------------------------------------------------------------------------------------


def view(scheduler: Scheduler) -> list[object]:
    tables = [
        dict(scheduler.rows),
        dict(scheduler.unfit),
        dict(scheduler.blocked),
        dict(scheduler.closed),
    ]
    waiting = [identity for _, _, identity in scheduler.ranking.queue]
    counted = [scheduler.counters, scheduler.decisions, scheduler.wake_at, scheduler.stale]
    free = list(scheduler.tenancy.free)
    must = [list(scheduler.must_stop), list(scheduler.must_shrink)]
    return [*tables, dict(scheduler.leaving), *must, waiting, *counted, free]


def test_a_fork_has_a_retry_rule_of_its_own() -> None:
    rule = Once()
    scheduler = Scheduler(builders.policy("fifo"), Cluster.grid(1, 1), retry=rule)
    scheduler.step([JobSubmitted(job("a"))], 0.0)
    scheduler.step([JobStarted("a", 0, 0.0, 1.0)], 0.0)
    twin = scheduler.fork()
    twin.step([JobFailed("a", 0, 0.0)], 1.0)
    assert rule.asked == []
    scheduler.step([JobFailed("a", 0, 0.0)], 1.0)
    assert rule.asked == ["a"]


class Once:
    """A retry rule that remembers and lets each job fail once."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, failure: Failure) -> Answer:
        again = failure.spec.id not in self.asked
        self.asked.append(failure.spec.id)
        return Answer(again=again)


# -- submissions -----------------------------------------------------------------------------------


def test_a_submission_that_is_refused_changes_nothing() -> None:
    story = Story("fifo", "1x1")
    story.tell(0.0, JobSubmitted(job("a")))
    before = view(story.scheduler)
    with pytest.raises(InvalidInputError, match="job a was submitted twice"):
        story.scheduler.take([JobSubmitted(job("a"))], 1.0)
    assert view(story.scheduler) == before


# -- orders and what is left of them ---------------------------------------------------------------


class Expiring(Told):
    """Its ranks of waiting jobs expire at 50 s."""

    def rank(self, job: Job, now: float) -> Rank:
        return Rank(0.0, 0.0, 50.0) if job.allocation is None else Rank(0.0)


def test_a_job_that_waits_again_is_ranked_again_when_its_rank_expires() -> None:
    """The stop was ordered, so its report causes no decision; the alarm must still be set."""
    story = Story(Expiring(Schedule({"a": on(0)}), Schedule({"a": None})))
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    story.tell(5.0, DeviceClosed(Device("n0", 3)))
    assert story.scheduler.wake_at == inf
    assert story.tell(6.0, JobStopped("a", 1, 5.0)) == []
    assert story.scheduler.wake_at == 50.0


def test_a_job_that_must_stop_for_two_reasons_is_stopped_once() -> None:
    story = Story("fifo", "1x1")
    story.tell(0.0, JobSubmitted(job("a")))
    assert story.tell(1.0, JobCancelled("a"), NodeLost("n0")) == [Stop(1, "a")]


def led(sizes: tuple[int, ...], lead: str) -> JobSpec:
    return replace(job("a", size=sizes[-1], sizes=sizes), profile=Profile(lead=lead))


def spread(*nodes: str) -> Allocation:
    return Allocation(tuple(Device(node, number) for node in nodes for number in (0, 1)))


@pytest.mark.parametrize(
    ("sizes", "lead", "order"),
    [
        ((2, 4, 6), "n0", Change(1, "a", spread("n1", "n2"))),
        ((2, 6), "n0", Change(1, "a", spread("n1"))),
        ((6,), "n0", Stop(1, "a")),
        ((2, 4, 6), "", Stop(1, "a")),
    ],
)
def test_a_job_goes_on_without_a_lost_node_if_it_can(
    sizes: tuple[int, ...], lead: str, order: Action
) -> None:
    """Replayed, the same order is given, and none is owed."""
    facts: list[Event] = [
        JobSubmitted(led(sizes, lead)),
        JobStarted("a", 0, 0.0, 1.0),
        NodeLost("n0"),
    ]
    start = Schedule({"a": spread("n0", "n1", "n2")})
    story, twin = Story(Told(start), "3x2"), Scheduler(Told(), Cluster.grid(3, 2))
    for now, fact in enumerate(facts):
        orders = story.tell(float(now), fact)
        twin.replay([fact], orders, float(now), wake_at=None)
    assert orders == [order]
    assert (twin.rows, list(twin.leaving)) == (story.scheduler.rows, ["a"])
    assert (twin.must_stop, twin.must_shrink) == ([], [])
    check(story.scheduler)


def test_a_job_that_is_held_or_changes_when_its_node_is_lost_is_stopped() -> None:
    start = Schedule({"a": spread("n0", "n1")})
    spec = led((2, 4), "n0")
    story = Story(Told(start), "2x2")
    story.tell(0.0, JobSubmitted(spec))
    assert story.tell(1.0, NodeLost("n1")) == [Stop(1, "a")]
    story = Story(Told(start), "2x2")
    story.tell(0.0, JobSubmitted(spec))
    story.runs(0.0, "a")
    assert story.tell(1.0, JobHeld("a", "user"), NodeLost("n1")) == [Stop(1, "a")]


def test_order_ids_count_on_from_the_highest() -> None:
    scheduler = Scheduler(Told(), Cluster.grid(1, 2))
    submitted = [JobSubmitted(job("a")), JobSubmitted(job("b"))]
    orders = [Start(7, "a", on(0)), Start(3, "b", on(1))]
    scheduler.replay(submitted, orders, 0.0, wake_at=None)
    assert scheduler.counters.order == 8


START_B = Schedule({"b": on(0)})


def test_a_job_that_ended_while_it_was_stopped_is_waited_for_no_more() -> None:
    story = Story(Told(Schedule({"a": on(0)}), Schedule({"a": None}), START_B))
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    assert story.tell(1.0, JobSubmitted(job("b"))) == [Stop(1, "a")]
    assert story.tell(2.0, JobFinished("a", 0)) == [Start(2, "b", on(0), ())]


MOVED = (Schedule({"a": on(0)}), Schedule({"a": on(1)}), START_B)


def test_a_moved_job_that_failed_is_waited_for_no_more() -> None:
    story = Story(Told(*MOVED))
    story.tell(0.0, JobSubmitted(job("a", retries=1)))
    story.runs(0.0, "a")
    story.tell(1.0, JobSubmitted(job("b")))
    assert story.tell(2.0, JobFailed("a", 1, 0.0)) == [Start(2, "b", on(0), ())]


def test_a_moved_job_that_runs_is_waited_for_no_more() -> None:
    story = Story(Told(*MOVED))
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    story.tell(1.0, JobSubmitted(job("b")))
    story.runs(2.0, "a")
    assert story.tell(3.0, JobSubmitted(job("c"))) == [Start(2, "b", on(0), ())]


def test_the_end_of_a_cancelled_job_is_news_to_the_policy() -> None:
    policy = Told(Schedule({"a": on(0)}))
    story = Story(policy, "1x1")
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    assert story.tell(1.0, JobCancelled("a")) == [Stop(1, "a")]
    policy.asked_at.clear()
    story.tell(3.0, JobStopped("a", 1, 2.0))
    assert story.scheduler.ended == {"a": Phase.CANCELLED}
    assert policy.asked_at == [3.0]


def test_a_start_waits_once_for_a_job_that_leaves_two_of_its_devices() -> None:
    """`x` has not reported its move from 0 to 1 when it is stopped and `y` gets both devices."""
    moves = Schedule({"x": on(0)}), Schedule({"x": on(1)}), Schedule({"x": None, "y": on(0, 1)})
    story = Story(Told(*moves), "1x2")
    story.tell(0.0, JobSubmitted(job("x")))
    story.runs(0.0, "x")
    assert story.tell(1.0, JobSubmitted(job("other"))) == [Change(1, "x", on(1))]
    orders = story.tell(2.0, JobSubmitted(job("y", size=2)))
    assert orders == [Stop(2, "x"), Start(3, "y", on(0, 1), ("x",))]
