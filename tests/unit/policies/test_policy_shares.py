"""The policies that decide sizes: max-min, optimus, themis."""

from dataclasses import replace

import pytest

from tests.unit.stories import Story, play
from treadle.core.actions import Start
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import JobSubmitted, NodeDrained, NodeJoined
from treadle.core.free import FreeDevices
from treadle.core.job import JobSpec
from treadle.policies.base.shares import kept
from treadle.testing.builders import job


def elastic(
    name: str, *sizes: int, length_s: float = 100.0, at: float = 0.0, serial: float = 0.0
) -> JobSpec:
    """A job of those sizes that takes length_s at the largest."""
    spec = job(name, size=sizes[-1], sizes=sizes, length_s=length_s, at=at)
    return replace(spec, profile=replace(spec.profile, serial=serial))


# -- max-min -------------------------------------------------------------------------------------


def test_max_min_gives_equal_shares_and_the_odd_device_to_the_first_job() -> None:
    jobs = [elastic("a", 1, 2, 4), elastic("b", 1, 2, 4, at=1.0), elastic("c", 1, 2, 4, at=2.0)]
    assert play("max-min", jobs, until=2.0) == [
        "0 start a n0:0,1,2,3",
        "1 change a n0:0,1",
        "1 start b n0:2,3",
        "2 change b n0:2",
        "2 start c n0:3",
    ]


def test_max_min_lets_jobs_grow_when_others_leave() -> None:
    """At two of four devices b takes twice as long: 5 s become 10."""
    jobs = [elastic("a", 1, 2, 4), elastic("b", 1, 2, 4, length_s=5.0)]
    assert play("max-min", jobs, until=10.0) == [
        "0 start a n0:0,1",
        "0 start b n0:2,3",
        "10 finish b",
        "10 change a n0:0,1,2,3",
    ]


def test_max_min_grows_no_job_by_a_step_that_does_not_fit() -> None:
    jobs = [elastic("a", 1, 4), elastic("b", 1, 2)]
    assert play("max-min", jobs, until=0.0) == ["0 start a n0:0", "0 start b n0:1,2"]


def test_max_min_takes_turns_when_not_all_fit() -> None:
    """At 20 s both have had one turn, and the holder keeps its devices."""
    jobs = [job("a", length_s=15.0), job("b", length_s=15.0)]
    assert play("max-min?quantum_s=10", jobs, "1x1") == [
        "0 start a n0:0",
        "10 stop a",
        "10 start b n0:0",
        "25 finish b",
        "25 start a n0:0",
        "30 finish a",
    ]


@pytest.mark.parametrize("sizes", [(1,), (1, 2)])
def test_s9_max_min_without_turns_stops_no_job_that_has_begun(sizes: tuple[int, ...]) -> None:
    """Rigid or elastic, with less service or not: a waits its turn behind b under both orders."""
    jobs = [
        job("b", size=1, sizes=sizes, length_s=30.0),
        job("a", size=1, sizes=sizes, length_s=5.0, at=20.0),
        job("c", size=1, sizes=sizes, length_s=5.0, at=21.0),
    ]
    lines = play("max-min?quantum_s=10&turns=off", jobs, "1x1")
    assert [line for line in lines if "start" in line] == [
        "0 start b n0:0",
        "30 start a n0:0",
        "35 start c n0:0",
    ]
    assert not [line for line in lines if "stop" in line]
    assert "20 stop b" in play("max-min?quantum_s=10", jobs, "1x1")


def test_max_min_has_nothing_to_do_when_every_job_has_the_most_it_can_use() -> None:
    story = Story("max-min", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=2)))
    story.runs(0.0, "a")
    assert story.tell(1.0, NodeJoined(Node("n9", 4))) == []


# -- optimus -------------------------------------------------------------------------------------


def test_optimus_gives_the_next_device_to_the_job_it_brings_forward_most() -> None:
    """From one device to two, a saves 100 s of 200 and b 50 s of 100."""
    jobs = [elastic("b", 1, 2, length_s=50.0), elastic("a", 1, 2, length_s=100.0)]
    assert play("optimus", jobs, "1x3", until=0.0) == ["0 start b n0:0", "0 start a n0:1,2"]


def test_optimus_counts_the_gain_for_each_device() -> None:
    """Alone a needs 400 s and saves 300 with three devices more, b needs 240 and saves 120 with
    one: 100 a device against 120. After b's step one device is left, too few for a's.
    """
    jobs = [elastic("a", 1, 4, length_s=100.0), elastic("b", 1, 2, length_s=120.0)]
    assert play("optimus", jobs, "1x5", until=0.0) == ["0 start a n0:0", "0 start b n0:1,2"]


def test_optimus_leaves_devices_idle_that_speed_up_no_job() -> None:
    jobs = [elastic("a", 1, 2, 4, serial=1.0)]
    assert play("optimus", jobs, until=0.0) == ["0 start a n0:0"]


def test_optimus_passes_jobs_that_do_not_fit_and_shrinks_those_that_run() -> None:
    """a shrinks to one for b, which fits beside it; c would need more and waits."""
    jobs = [
        elastic("a", 1, 4),
        job("c", size=4, length_s=10.0, at=1.0),
        job("b", size=3, length_s=10.0, at=1.0),
    ]
    assert play("optimus", jobs, until=1.0) == [
        "0 start a n0:0,1,2,3",
        "1 change a n0:0",
        "1 start b n0:1,2,3",
    ]


# -- themis --------------------------------------------------------------------------------------


def test_themis_honours_a_lease_and_then_serves_the_job_that_is_worst_off() -> None:
    """Two jobs of 30 s on one device: alone on its half each would take 60 s.

    At 10 s a is to take 10 + 20 and b 9 + 30; at 20 s a 20 + 20 and b 19 + 20; at 30 s a 30 + 10
    and b 29 + 20, all of 60.
    """
    jobs = [job("a", length_s=30.0), job("b", length_s=30.0, at=1.0)]
    assert play("themis?lease_s=10", jobs, "1x1") == [
        "0 start a n0:0",
        "10 stop a",
        "10 start b n0:0",
        "20 stop b",
        "20 start a n0:0",
        "30 stop a",
        "30 start b n0:0",
        "40 stop b",
        "40 start a n0:0",
        "50 finish a",
        "50 start b n0:0",
        "60 finish b",
    ]


def test_themis_gives_an_elastic_job_what_is_left_of_what_it_asked_for() -> None:
    jobs = [job("a", size=3), elastic("b", 1, 2, 4)]
    assert play("themis", jobs, until=0.0) == ["0 start a n0:0,1,2", "0 start b n0:3"]


def test_s2_themis_lets_sizes_follow_when_a_lease_ends() -> None:
    """a has all 4 devices for its lease, and 2 of them from then on; b has the others."""
    jobs = [job("a", size=2, sizes=(1, 2, 4)), job("b", size=2, sizes=(1, 2, 4), at=1.0)]
    assert play("themis?lease_s=10", jobs, until=10.0) == [
        "0 start a n0:0,1,2,3",
        "10 change a n0:2,3",
        "10 start b n0:0,1",
    ]


def test_s2_a_lease_ends_also_for_a_decision_that_comes_late() -> None:
    """Live, a decision comes a moment after it is due, and in rounds much later."""
    story = Story("themis?lease_s=10", "1x1")
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    story.tell(1.0, JobSubmitted(job("b")))
    assert story.scheduler.wake_at == 10.0
    orders = story.tell(13.0)
    assert [type(order).__name__ for order in orders] == ["Stop", "Start"]


# -- devices for sizes ---------------------------------------------------------------------------


def test_a_job_that_shrinks_keeps_what_lies_together() -> None:
    """a holds one device of n0 and four of n1, and shrinks to two: it keeps two of n1."""
    jobs = [job("first", size=3), elastic("a", 2, 5), job("later", size=3, at=1.0)]
    lines = play("max-min", jobs, "2x4", place="count", until=1.0)
    assert lines[1] == "0 start a n1:0,1,2,3 n0:3"
    assert lines[2:] == ["1 change a n1:0,1", "1 start later n1:2,3 n0:3"]


def test_a_job_that_grows_stays_on_its_node_where_there_is_room() -> None:
    jobs = [
        job("x", size=2, length_s=5.0),
        job("y", size=1, length_s=50.0),
        elastic("a", 1, 2, 3, length_s=90.0),
        job("z", size=4, length_s=50.0),
    ]
    lines = play("max-min", jobs, "2x4", until=5.0)
    assert lines == [
        "0 start x n0:0,1",
        "0 start y n0:2",
        "0 start a n0:3",
        "0 start z n1:0,1,2,3",
        "5 finish x",
        "5 change a n0:3,0,1",
    ]


def test_what_fragmentation_denies_is_given_at_a_smaller_size() -> None:
    """Two devices are free on each node; a would get four and finds two together."""
    jobs = [job("x", size=2), elastic("a", 1, 2, 4)]
    story = Story("max-min", "2x3")
    for spec in (jobs[0], job("y", size=1)):
        story.tell(0.0, JobSubmitted(spec))
    orders = story.tell(1.0, JobSubmitted(jobs[1]))
    assert [order.job for order in orders] == ["a"]
    assert isinstance(orders[0], Start)
    assert orders[0].allocation.size == 2


# -- nodes that are drained ----------------------------------------------------------------------


def test_a_job_on_a_drained_node_costs_no_other_its_devices() -> None:
    """a runs on n0, b on n1; n0 is drained. Both run on, whatever the policy."""
    for name in ("max-min", "optimus", "themis?lease_s=5"):
        story = Story(name, "2x4")
        story.tell(0.0, JobSubmitted(job("a", size=4)))
        story.tell(0.0, JobSubmitted(job("b", size=4)))
        story.runs(0.0, "a", "b")
        assert story.tell(1.0, NodeDrained("n0")) == [], name
        story.tell(2.0, JobSubmitted(job("c", size=1)))
        assert story.phases() == "a:running b:running c:waiting", name


# -- near what a job holds -------------------------------------------------------------------------


def _at(node: str, *numbers: int) -> tuple[Device, ...]:
    return tuple(Device(node, number) for number in numbers)


@pytest.mark.parametrize(
    ("held", "size", "expected"),
    [
        (_at("n0", 1), 1, _at("n0", 1)),
        (_at("n0", 1), 3, _at("n0", 1, 0, 2)),
        (_at("n0", 1), 5, _at("n0", 1, 0, 2, 3)),  # The node has no more.
        (_at("n0", 0) + _at("n1", 0, 1), 2, _at("n1", 0, 1)),  # The best together stay.
        (_at("n1", 0) + _at("n0", 0), 4, _at("n0", 0) + _at("n1", 0) + _at("n0", 1, 2)),
        (_at("n2", 0), 2, ()),  # It holds nothing that is free.
    ],
)
def test_a_job_keeps_what_it_holds_and_grows_on_its_own_nodes(
    held: tuple[Device, ...], size: int, expected: tuple[Device, ...]
) -> None:
    free = FreeDevices.of(Cluster((Node("n0", 4), Node("n1", 4), Node("n2", 2))))
    free.take(_at("n2", 0))
    assert kept(free, held, size) == expected
