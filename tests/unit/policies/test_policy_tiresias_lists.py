"""Tiresias with queues that are lists, as Muri's authors model it."""

import pytest

from tests.unit.stories import play
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec
from treadle.testing.builders import job, policy

LISTS = "tiresias?limits=10:100&as_lists=on"


def orders(jobs: list[JobSpec], cluster: str = "1x1") -> list[str]:
    return [line for line in play(LISTS, jobs, cluster, place="count") if " finish " not in line]


def test_a_job_that_falls_joins_the_end_and_may_lose_its_devices_at_that_moment() -> None:
    """a and b fall in turn after 10 s; each time the one that waits below takes over at once."""
    jobs = [job("a", length_s=15), job("b", length_s=40), job("c", length_s=5, at=12)]
    assert orders(jobs) == [
        "0 start a n0:0",
        "10 stop a",
        "10 start b n0:0",
        "20 stop b",
        "20 start c n0:0",
        "25 start a n0:0",
        "30 start b n0:0",
    ]


def test_a_preempted_job_waits_at_the_head() -> None:
    """1. a and b fall, and share the second queue: a runs, b waits behind it.
    2. c arrives above them and takes a's device; a comes back before b.
    """
    jobs = [job("a", length_s=60), job("b", length_s=60), job("c", length_s=5, at=25)]
    assert orders(jobs)[3:] == [
        "20 stop b",
        "20 start a n0:0",
        "25 stop a",
        "25 start c n0:0",
        "30 start a n0:0",
        "75 start b n0:0",
    ]


@pytest.mark.parametrize("other", ["by_arrival=on", "promote=2"])
def test_lists_go_with_no_other_order(other: str) -> None:
    with pytest.raises(InvalidInputError, match="neither by_arrival nor promote"):
        policy(f"{LISTS}&{other}")
