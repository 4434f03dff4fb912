"""A preemptive decision: who gives way, who stays, who moves."""

from tests.unit.stories import Story, on, play
from treadle.core.actions import Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device, Node
from treadle.core.events import (
    JobHeld,
    JobReleased,
    JobStarted,
    JobSubmitted,
    NodeDrained,
    NodeJoined,
)
from treadle.core.free import FreeDevices
from treadle.core.ranking import Rank
from treadle.policies.base.ordered import Ordered
from treadle.policies.base.placement import Count, placement
from treadle.testing.builders import job


def test_only_the_last_in_order_is_preempted() -> None:
    """Four jobs of one device each with 10, 20, 30 and 40 s; a newcomer needs two devices."""
    jobs = [job(f"r{length}", length_s=float(length)) for length in (10, 20, 30, 40)]
    new = job("new", size=2, length_s=1.0, at=5.0)
    lines = play("srtf", [*jobs, new], until=5.0)
    assert [line for line in lines if line.startswith("5")] == [
        "5 stop r30",
        "5 stop r40",
        "5 start new n0:2,3",
    ]


def test_no_job_is_stopped_if_stopping_all_behind_would_not_help() -> None:
    """`new` ranks before r40 and r30 but needs three devices, and the third is r10's."""
    jobs = [job("r10", size=2, length_s=10.0), job("r30", length_s=30.0), job("r40", length_s=40.0)]
    lines = play("srtf", [*jobs, job("new", size=3, length_s=9.0, at=5.0)], until=5.0)
    assert lines[-1].startswith("0")


def test_those_who_turn_out_not_to_be_in_the_way_stay() -> None:
    """`new` needs two devices. The last in order has one and the one before it two: both are
    asked, and then the last may stay.
    """
    jobs = [
        job("last", length_s=40.0),
        job("before", size=2, length_s=30.0),
        job("short", length_s=20.0),
        job("new", size=2, length_s=1.0, at=5.0),
    ]
    assert play("srtf", jobs, place="count", until=5.0) == [
        "0 start short n0:0",
        "0 start before n0:1,2",
        "0 start last n0:3",
        "5 stop before",
        "5 start new n0:1,2",
    ]


def test_one_who_gives_way_moves_where_there_is_room() -> None:
    """n0 holds `small`, n1 is half free: `new` takes the whole of n0 and `small` moves."""
    jobs = [
        job("half", size=2, length_s=50.0),
        job("gone", size=2, length_s=1.0),
        job("small", size=1, length_s=60.0),
    ]
    lines = play("srtf", [*jobs, job("new", size=4, length_s=5.0, at=2.0)], "2x4", until=2.0)
    assert lines == [
        "0 start gone n0:0,1",
        "0 start half n0:2,3",
        "0 start small n1:0",
        "1 finish gone",
        "2 change small n0:0",
        "2 start new n1:0,1,2,3",
    ]


def test_an_evicted_job_takes_the_place_of_one_behind_it() -> None:
    """`new` needs all of one node; `mid` goes there no more, but ranks before `last` on n1."""
    jobs = [job("mid", size=4, length_s=20.0), job("last", size=4, length_s=90.0)]
    lines = play("srtf", [*jobs, job("new", size=4, length_s=5.0, at=1.0)], "2x4", until=1.0)
    assert lines == [
        "0 start mid n0:0,1,2,3",
        "0 start last n1:0,1,2,3",
        "1 stop last",
        "1 start new n1:0,1,2,3",
    ]


def test_preempting_a_job_on_a_drained_node_helps_no_other() -> None:
    """`long` runs on n1, which is drained. `short` fits nowhere, and stopping `long` is no help."""
    story = Story("srtf", "2x4")
    story.tell(0.0, JobSubmitted(job("mid", size=4, length_s=50.0)))
    story.tell(0.0, JobSubmitted(job("long", size=4, length_s=90.0)))
    story.runs(0.0, "mid", "long")
    assert story.tell(1.0, NodeDrained("n1")) == []
    orders = story.tell(2.0, JobSubmitted(job("short", size=4, length_s=9.0)))
    assert orders == [Stop(2, "mid"), Start(3, "short", on(0, 1, 2, 3), ("mid",))]
    assert story.tell(3.0, JobSubmitted(job("middling", size=4, length_s=30.0))) == []
    story.tell(4.0, JobStarted("short", 3, 0.0, 1.0))
    back = story.tell(5.0, NodeJoined(Node("n1", 4)))
    assert back == [Stop(4, "long"), Start(5, "middling", on(0, 1, 2, 3, node="n1"), ("long",))]


def test_a_job_half_on_a_drained_node_can_give_way_for_the_other_half() -> None:
    story = Story("srtf", "2x4", place="count")
    story.tell(0.0, JobSubmitted(job("wide", size=8, length_s=90.0)))
    story.runs(0.0, "wide")
    story.tell(1.0, NodeDrained("n1"))
    orders = story.tell(2.0, JobSubmitted(job("short", size=4, length_s=9.0)))
    assert orders == [Stop(1, "wide"), Start(2, "short", on(0, 1, 2, 3), ("wide",))]


def test_repacking_places_every_job_afresh_in_order() -> None:
    """`short` ranks first and gets the first device; `long` moves; `wide` fits no more."""
    jobs = [
        job("long", length_s=50.0),
        job("wide", size=3, length_s=60.0),
        job("short", length_s=5.0, at=1.0),
    ]
    assert play("srtf?repack=on", jobs, until=1.0) == [
        "0 start long n0:0",
        "0 start wide n0:1,2,3",
        "1 stop wide",
        "1 change long n0:1",
        "1 start short n0:0",
    ]


def test_repacking_leaves_ties_as_they_are() -> None:
    """At 5 s `first` has as much left as `second`, which has just arrived."""
    jobs = [job("first", size=4, length_s=10.0), job("second", size=4, length_s=5.0, at=5.0)]
    assert play("srsf?repack=on", jobs, until=9.0) == ["0 start first n0:0,1,2,3"]


class Counting(Count):
    """A placement that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def place(self, free: FreeDevices, size: int) -> tuple[Device, ...] | None:
        self.asked.append(size)
        return super().place(free, size)


def test_a_size_that_an_evicted_job_could_not_have_is_not_looked_for_again() -> None:
    """`first` takes the devices of `evicted`, which ranks before `last` and finds none in turn.

    `last` asks for as many, so no place is looked for on its behalf: on a long queue that is the
    cost of the decision. Three questions are asked for `first`, one for `evicted`.
    """
    ranks = {"stays": 1.0, "evicted": 5.0, "first": 0.0, "last": 9.0}
    place = Counting()
    policy = Ordered(lambda row, now: Rank(ranks[row.id]), place, preemptive=True)
    story = Story(policy, "1x4")
    story.tell(0.0, JobSubmitted(job("stays", size=2)), JobSubmitted(job("evicted", size=2)))
    story.runs(0.0, "stays", "evicted")
    story.scheduler.take([JobSubmitted(job(name, size=2)) for name in ("first", "last")], 1.0)
    place.asked.clear()
    orders = story.scheduler.decide(1.0)
    assert orders == [Stop(2, "evicted"), Start(3, "first", on(2, 3), ("evicted",))]
    assert place.asked == [2, 2, 2, 2]


def test_jobs_that_stop_come_back_to_the_queue_in_the_order_in_which_they_ran() -> None:
    """Two arrivals evict one job each, the last in order first; the orders are in order."""
    story = Story("srtf", "1x2")
    story.tell(
        0.0, JobSubmitted(job("r30", length_s=30.0)), JobSubmitted(job("r40", length_s=40.0))
    )
    story.runs(0.0, "r30", "r40")
    arrivals = [job("n1", length_s=1.0), job("n2", length_s=2.0)]
    orders = story.tell(5.0, *map(JobSubmitted, arrivals))
    assert [(type(order), order.job) for order in orders] == [
        (Stop, "r30"),
        (Stop, "r40"),
        (Start, "n1"),
        (Start, "n2"),
    ]


def test_of_two_evicted_jobs_the_one_that_ranks_before_a_waiting_job_is_placed_before_it() -> None:
    """`new` needs all of n0, where `better` and `worse` run; one device of n1 is left. `better`
    ranks before `waits` and gets it, and `worse` ranks behind.
    """
    ranks = {"stays": 1.0, "better": 3.0, "worse": 9.0, "new": 0.0, "waits": 5.0}
    policy = Ordered(
        lambda row, now: Rank(ranks[row.id]), placement("consolidate"), preemptive=True
    )
    story = Story(policy, "2x2")
    story.tell(0.0, JobSubmitted(job("better")), JobSubmitted(job("worse")))
    story.tell(0.0, JobSubmitted(job("stays")))
    story.runs(0.0, "better", "worse", "stays")
    orders = story.tell(1.0, JobSubmitted(job("new", size=2)), JobSubmitted(job("waits")))
    assert sorted((type(order).__name__, order.job) for order in orders) == [
        ("Change", "better"),
        ("Start", "new"),
        ("Stop", "worse"),
    ]


def test_at_a_tie_a_job_whose_value_falls_gives_way_to_one_that_waited() -> None:
    """At 5 s `first` has as much left as `second`, which came earlier and may start now."""
    story = Story("srtf", "1x1")
    story.tell(0.0, JobSubmitted(job("first", length_s=10.0)))
    story.runs(0.0, "first")
    assert story.tell(1.0, JobSubmitted(job("second", length_s=5.0)), JobHeld("second", "x")) == []
    orders = story.tell(5.0, JobReleased("second", "x"))
    assert orders == [Stop(1, "first"), Start(2, "second", on(0), ("first",))]


def test_a_whole_node_and_one_more_device_are_made_free_step_by_step() -> None:
    """`new` needs three devices; every device is held by a job of its own.

    1. The last three in order are on three nodes: three devices, but no whole node.
    2. `b`, the next, makes n0 whole. `e`, on n2, is not in the way of `new`.
    3. `b` ranks before `e` and takes its place.
    """
    ranks = {"a": 9.0, "c": 8.0, "e": 7.0, "b": 6.0, "d": 1.0, "f": 1.0, "new": 0.0}
    policy = Ordered(
        lambda row, now: Rank(ranks[row.id]), placement("consolidate"), preemptive=True
    )
    story = Story(policy, "3x2")
    for name in "abcdef":
        story.tell(0.0, JobSubmitted(job(name)))
    story.runs(0.0, *"abcdef")
    orders = story.tell(1.0, JobSubmitted(job("new", size=3)))
    assert [(type(order).__name__, order.job) for order in orders] == [
        ("Stop", "e"),
        ("Stop", "c"),
        ("Stop", "a"),
        ("Change", "b"),
        ("Start", "new"),
    ]
    held = {row.id: row.allocation for row in story.scheduler.jobs.values()}
    assert held["b"] == on(0, node="n2")
    assert held["new"] == Allocation((*on(0, 1).devices, *on(0, node="n1").devices))
