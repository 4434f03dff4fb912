"""The policies that are an order, each in a story small enough to compute by hand."""

import pytest

from tests.unit.stories import play
from treadle.testing.builders import job

# On four devices: a leaves room for c and not for b.
BLOCKED = [
    job("a", size=3, length_s=10.0),
    job("b", size=2, length_s=5.0, at=1.0),
    job("c", size=1, length_s=5.0, at=2.0),
]


def test_fifo_lets_no_job_pass_one_that_does_not_fit() -> None:
    assert play("fifo", BLOCKED) == [
        "0 start a n0:0,1,2",
        "10 finish a",
        "10 start b n0:0,1",
        "10 start c n0:2",
        "15 finish b",
        "15 finish c",
    ]


def test_backfill_lets_those_pass_that_fit() -> None:
    assert play("backfill", BLOCKED) == [
        "0 start a n0:0,1,2",
        "2 start c n0:3",
        "7 finish c",
        "10 finish a",
        "10 start b n0:0,1",
        "15 finish b",
    ]


def test_sjf_starts_the_shortest_first_and_preempts_no_job() -> None:
    jobs = [
        job("busy", size=4, length_s=10.0),
        job("long", size=4, length_s=9.0, at=1.0),
        job("short", size=4, length_s=3.0, at=2.0),
    ]
    assert play("sjf", jobs) == [
        "0 start busy n0:0,1,2,3",
        "10 finish busy",
        "10 start short n0:0,1,2,3",
        "13 finish short",
        "13 start long n0:0,1,2,3",
        "22 finish long",
    ]


@pytest.mark.parametrize(("strict", "starts"), [("on", []), ("off", ["1 start c n0:3"])])
def test_sjf_is_strict_or_lets_those_pass_that_fit(strict: str, starts: list[str]) -> None:
    jobs = [
        job("a", size=3, length_s=10.0),
        job("b", size=2, length_s=1.0, at=1.0),
        job("c", size=1, length_s=5.0, at=1.0),
    ]
    lines = play(f"sjf?strict={strict}", jobs, until=1.0)
    assert lines == ["0 start a n0:0,1,2", *starts]


def test_srtf_preempts_for_a_job_with_less_left() -> None:
    jobs = [job("long", size=4, length_s=100.0), job("short", size=4, length_s=5.0, at=10.0)]
    assert play("srtf", jobs) == [
        "0 start long n0:0,1,2,3",
        "10 stop long",
        "10 start short n0:0,1,2,3",
        "15 finish short",
        "15 start long n0:0,1,2,3",
        "105 finish long",
    ]


def test_srtf_leaves_a_job_alone_that_has_as_much_left_as_the_one_that_arrives() -> None:
    jobs = [job("first", size=4, length_s=10.0), job("second", size=4, length_s=5.0, at=5.0)]
    assert play("srtf", jobs) == [
        "0 start first n0:0,1,2,3",
        "10 finish first",
        "10 start second n0:0,1,2,3",
        "15 finish second",
    ]


def test_srsf_counts_devices_as_well_as_time() -> None:
    """At 1 s `wide` has 4 s left on four devices, `narrow` 10 s on one: 16 against 10."""
    jobs = [job("wide", size=4, length_s=5.0), job("narrow", size=1, length_s=10.0, at=1.0)]
    assert play("srsf", jobs) == [
        "0 start wide n0:0,1,2,3",
        "1 stop wide",
        "1 start narrow n0:0",
        "11 finish narrow",
        "11 start wide n0:0,1,2,3",
        "15 finish wide",
    ]
    assert play("srtf", jobs, until=1.0) == ["0 start wide n0:0,1,2,3"]


def test_las_preempts_when_the_margin_is_passed_and_not_before() -> None:
    """With a margin of 3 s, looking every second. b waits from 2 s on with nothing.

    a is 3 s ahead at 3 s and more at 4 s; b is 3 s ahead of a's 4 s at 11 s and more at 12 s.
    """
    jobs = [job("a", size=4, length_s=20.0), job("b", size=4, length_s=20.0, at=2.0)]
    assert play("las?share=1&margin_s=3&quantum_s=1", jobs, until=12.0) == [
        "0 start a n0:0,1,2,3",
        "4 stop a",
        "4 start b n0:0,1,2,3",
        "12 stop b",
        "12 start a n0:0,1,2,3",
    ]


def test_las_preempts_only_for_a_job_that_has_run_less_than_a_share() -> None:
    """b waits from 2 s on with nothing, and half of a's time passes 3 s at 6 s, not before."""
    jobs = [job("a", size=4, length_s=20.0), job("b", size=4, length_s=20.0, at=2.0)]
    assert play("las?share=0.5&margin_s=3&quantum_s=1", jobs, until=8.0) == [
        "0 start a n0:0,1,2,3",
        "7 stop a",
        "7 start b n0:0,1,2,3",
    ]


# -- tiresias ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "limit"), [(1, 5), (2, 10)])
def test_tiresias_demotes_at_the_moment_a_limit_of_service_is_reached(
    size: int, limit: int
) -> None:
    """Service is devices times time: two devices reach 10 when one reaches 5, at 5 s.

    Then b, in the first queue, takes over; from 10 s on both are in the second queue, where first
    come is first served and no job is preempted.
    """
    jobs = [job("a", size=size, length_s=30.0), job("b", size=size, length_s=30.0, at=1.0)]
    devices = ",".join(map(str, range(size)))
    assert play(f"tiresias?limits={limit}", jobs, f"1x{size}") == [
        f"0 start a n0:{devices}",
        "5 stop a",
        f"5 start b n0:{devices}",
        "35 finish b",
        f"35 start a n0:{devices}",
        "60 finish a",
    ]


def test_tiresias_promotes_a_job_that_has_waited_so_many_times_as_long_as_it_ran() -> None:
    """limit 5, promote 2.

    1. a runs 5 s and falls.  2. It waits twice as long, to 15 s, and is promoted: b, which fell at
    10 s, gives way.  3. a falls again at 20 s, 5 s into its spell, but b is down there too.
    4. b ran 10 s and has waited 20 at 35 s: it is promoted.
    """
    jobs = [job("a", length_s=100.0), job("b", length_s=100.0, at=1.0)]
    assert play("tiresias?limits=5&promote=2", jobs, "1x1", until=36.0) == [
        "0 start a n0:0",
        "5 stop a",
        "5 start b n0:0",
        "15 stop b",
        "15 start a n0:0",
        "35 stop a",
        "35 start b n0:0",
    ]


def test_gittins_preempts_for_a_job_that_ends_more_than_twice_as_soon() -> None:
    jobs = [
        job("long", size=4, length_s=100.0),
        job("near", size=4, length_s=60.0, at=10.0),
        job("short", size=4, length_s=20.0, at=20.0),
    ]
    assert play("gittins", jobs)[:4] == [
        "0 start long n0:0,1,2,3",
        "20 stop long",
        "20 start short n0:0,1,2,3",
        "40 finish short",
    ]
