"""AntMan in small stories: who hoards, who shares, who waits."""

from dataclasses import replace

from tests.unit.stories import Story, on, play
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.events import JobSubmitted, NodeLost
from treadle.core.job import JobSpec
from treadle.core.reasons import Reason
from treadle.models.antman_gaps import GapsModel
from treadle.policies.base.placement import placement
from treadle.policies.simple.antman import GUARANTEED, OPPORTUNISTIC, AntMan, Memory
from treadle.testing.builders import job


def policy(place: str = "first-fit"):
    return AntMan(placement(place), GapsModel(), hoard=True)


def free_rider(name: str, *, size: int = 1, length_s: float = 100.0, at: float = 0.0) -> JobSpec:
    return replace(job(name, size=size, length_s=length_s, at=at), guaranteed=False)


def starts(jobs: list[JobSpec], cluster: str = "1x4", place: str = "first-fit") -> list[str]:
    return [line for line in play(policy(place), jobs, cluster) if " start " in line]


def test_a_large_guaranteed_job_hoards_until_it_can_start() -> None:
    """1. a holds half the node, and big sets the other half aside.
    2. Small jobs that would fit there do not overtake it.
    3. a ends, big starts; the small ones come after.
    """
    jobs = [
        job("a", size=2, length_s=100),
        job("big", size=4, length_s=50, at=10),
        job("c", at=20),
        job("d", at=30),
    ]
    assert starts(jobs) == [
        "0 start a n0:0,1",
        "100 start big n0:0,1,2,3",
        "150 start c n0:0",
        "150 start d n0:1",
    ]


HOARDED = [
    replace(job("a", size=2, length_s=100), tenant="A"),
    replace(job("big", size=4, length_s=50, at=10), tenant="A"),
    replace(job("c", length_s=20, at=20), tenant="A"),
]


def test_s8_without_hoarding_a_job_that_fits_goes_first() -> None:
    lines = [line for line in play("antman", HOARDED, "1x4") if " start " in line]
    assert lines == ["0 start a n0:0,1", "20 start c n0:2", "100 start big n0:0,1,2,3"]


def test_s8_what_is_set_aside_counts_against_the_quota() -> None:
    """big may set aside 1 of the 2 free devices; the other is left for e of another tenant."""
    jobs = [
        replace(job("a", size=2, length_s=100), tenant="A"),
        replace(job("big", size=3, length_s=50, at=10), tenant="A"),
        replace(job("e", length_s=20, at=20), tenant="B"),
        replace(job("f", length_s=20, at=20), tenant="B"),
    ]
    lines = [
        line for line in play("antman?hoard=on&quotas=A:3/B:2", jobs, "1x4") if " start " in line
    ]
    assert [line for line in lines if line.startswith("20 ")] == ["20 start e n0:3"]


def test_a_job_that_hoards_waits_for_its_own_node() -> None:
    """b's node comes free while big has half of a's: it goes to c, though big came first."""
    jobs = [
        job("a", length_s=200),
        job("b", size=2, length_s=30),
        job("big", size=2, at=10),
        job("c", size=2, length_s=300, at=40),
    ]
    assert starts(jobs, "2x2") == [
        "0 start a n0:0",
        "0 start b n1:0,1",
        "40 start c n1:0,1",
        "200 start big n0:1,0",
    ]


def test_a_job_larger_than_a_node_hoards_whole_nodes() -> None:
    jobs = [
        job("a", size=2, length_s=100),
        job("b", length_s=50),
        job("big", size=4, at=10),
        job("c", at=20),
    ]
    assert starts(jobs, "3x2") == [
        "0 start a n0:0,1",
        "0 start b n1:0",
        "20 start c n1:1",
        "100 start big n2:0,1 n0:0,1",
    ]


def test_opportunistic_jobs_take_idle_devices_then_those_set_aside_then_shared_ones() -> None:
    jobs = [
        job("a", size=1, length_s=1000),
        job("b", size=2, length_s=1000),
        free_rider("idle", at=5),
        job("big", size=2, at=10),
        free_rider("aside", at=15),
        free_rider("beside", size=2, at=20),
    ]
    assert starts(jobs, "2x2")[:5] == [
        "0 start a n0:0",
        "0 start b n1:0,1",
        "5 start idle n0:1",
        "15 start aside n0:0",
        "20 start beside n1:0,1",
    ]
    aside_first = [spec for spec in jobs if spec.id != "idle"]
    assert starts(aside_first, "2x2")[2] == "15 start aside n0:1"


def test_the_two_kinds_have_a_turn_each() -> None:
    story = Story(policy(), "1x1")
    guaranteed, rider = job("a"), free_rider("b")
    story.tell(0.0, JobSubmitted(guaranteed), JobSubmitted(rider), JobSubmitted(free_rider("c")))
    device = (Device("n0", 0),)
    assert story.scheduler.jobs["a"].allocation == Allocation(device, turn=GUARANTEED)
    assert story.scheduler.jobs["b"].allocation == Allocation(device, turn=OPPORTUNISTIC)
    assert story.scheduler.jobs["c"].allocation is None


def test_why_says_what_is_set_aside_and_how_much_room_there_is() -> None:
    story = Story(policy(), "2x2")
    story.tell(
        0.0,
        JobSubmitted(job("a")),
        JobSubmitted(job("b", size=2)),
        JobSubmitted(job("big", size=2)),
        JobSubmitted(job("late")),
        JobSubmitted(free_rider("r", size=3)),
        JobSubmitted(free_rider("s", size=2)),
    )
    found = {name: story.scheduler.why(name, 5.0) for name in ("big", "late", "s", "a")}
    assert found == {
        "big": Reason("set-aside", {"asked": 2, "have": 1}),
        "late": Reason("set-aside", {"asked": 1, "have": 0}),
        "s": Reason("devices", {"asked": 2, "free": 1, "total": 4, "holders": ("a", "r", "b")}),
        "a": Reason("starting", {"size": 1}),
    }


def test_only_guaranteed_jobs_mind_where_devices_are() -> None:
    story = Story(policy(), "2x2")
    facts = [JobSubmitted(job("a")), JobSubmitted(free_rider("r"))]
    story.tell(0.0, *facts, JobSubmitted(job("b", size=2)), JobSubmitted(free_rider("s", size=2)))
    held = {row.id: row.allocation for row in story.scheduler.jobs.values()}
    assert held["b"] is not None
    assert set(held["b"].nodes()) == {"n1"}
    assert held["s"] is not None
    assert set(held["s"].nodes()) == {"n0", "n1"}
    assert policy().never_fits(free_rider("r", size=5), Cluster.grid(2, 2)) == (
        "it asks for 5 devices and the cluster has 4"
    )


def test_what_was_set_aside_on_a_node_that_is_lost_is_forgotten() -> None:
    story = Story(policy(), "2x2")
    facts = [JobSubmitted(job("a")), JobSubmitted(job("b", size=2)), JobSubmitted(job("c", size=2))]
    story.tell(0.0, *facts)
    assert remembered(story).hoards == {"c": on(1).devices}
    story.tell(1.0, NodeLost("n0"))
    assert remembered(story).hoards == {}


def test_without_a_guaranteed_job_that_runs_nothing_stays_set_aside() -> None:
    """Two jobs that hoard half a cluster each would wait for each other for ever."""
    fresh = Story(policy(), "2x2").scheduler
    fresh.take([JobSubmitted(job("a", size=4)), JobSubmitted(job("b", size=4))], 0.0)
    stuck = Memory({"a": on(0, 1).devices, "b": on(0, 1, node="n1").devices})
    schedule = policy().decide(fresh.snapshot(0.0)._replace(memory=stuck))
    assert list(schedule.changes) == ["a"]


def remembered(story: Story) -> Memory:
    memory = story.scheduler.snapshot(0.0).memory
    assert isinstance(memory, Memory)
    return memory
