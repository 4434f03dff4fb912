"""Why a job waits or holds what it holds, as codes and numbers."""

import pytest

from tests.unit.stories import Story, Told
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import DeviceClosed, JobSubmitted, NodeLost
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule
from treadle.testing.builders import job


def devices(asked: int, free: int, total: int, *holders: str) -> Reason:
    numbers = {"asked": asked, "free": free, "total": total}
    return Reason("devices", {**numbers, "holders": holders})


def test_a_job_that_starts_and_then_runs() -> None:
    story = Story("fifo", "2x4")
    story.tell(10.0, JobSubmitted(job("a", size=6, length_s=40.0)))
    assert story.scheduler.why("a", 10.0) == Reason("starting", {"size": 6})
    story.runs(10.0, "a")
    numbers = {"size": 6, "least": 6, "most": 6, "asked": 6}
    assert story.scheduler.why("a", 12.5) == Reason("running", numbers)


def test_a_job_that_holds_less_than_it_asked_for() -> None:
    story = Story("max-min", "1x1")
    story.tell(0.0, JobSubmitted(job("a", size=2, sizes=(1, 2))))
    story.runs(0.0, "a")
    numbers = {"size": 1, "least": 1, "most": 2, "asked": 2}
    assert story.scheduler.why("a", 0.0) == Reason("running", numbers)


@pytest.mark.parametrize("name", ["fifo", "backfill", "srtf", "max-min", "themis", "weave-l"])
def test_a_job_for_which_too_few_devices_are_free(name: str) -> None:
    story = Story(name, "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=3, length_s=1.0)))
    story.tell(1.0, JobSubmitted(job("b", size=2)))
    assert story.scheduler.why("b", 1.0) == devices(2, 1, 4, "a")


def test_a_job_for_which_enough_are_free_in_the_wrong_places() -> None:
    """One device is free on n0 and two on n1."""
    story = Story("fifo", "2x4")
    story.tell(0.0, JobSubmitted(job("a", size=3)), JobSubmitted(job("b", size=2)))
    story.tell(1.0, JobSubmitted(job("c", size=3)))
    found = Reason("fragmentation", {"asked": 3, "free": 3, "most": 2})
    assert story.scheduler.why("c", 1.0) == found


def test_a_job_that_fits_and_may_not_overtake() -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=2)))
    story.tell(1.0, JobSubmitted(job("b", size=4)), JobSubmitted(job("c", size=1)))
    found = Reason("order", {"first_job": "b", "asked": 4, "free": 2})
    assert story.scheduler.why("c", 1.0) == found


@pytest.mark.parametrize("name", ["backfill", "max-min"])
def test_a_job_that_fits_and_is_about_to_be_started(name: str) -> None:
    """Between two looks of a policy a job may wait although it fits."""
    story = Story(name, "1x4")
    story.scheduler.take([JobSubmitted(job("a")), JobSubmitted(job("b"))], 0.0)
    assert story.scheduler.why("b", 0.0) == Reason("rank", {"ahead": 1})


def test_a_job_that_is_on_its_way_out() -> None:
    story = Story("fifo", "2x4")
    story.tell(0.0, JobSubmitted(job("a", size=4)))
    story.tell(0.0, JobSubmitted(job("b", size=4)), JobSubmitted(job("c", size=4)))
    story.tell(1.0, NodeLost("n0"))
    assert story.phases() == "a:stopping b:starting c:waiting"
    assert story.scheduler.why("a", 1.0) == Reason("stopping", {"size": 0})


def test_a_policy_that_decides_sizes_counts_the_least_that_a_job_can_use() -> None:
    story = Story("max-min", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=3)))
    story.tell(1.0, JobSubmitted(job("b", size=4, sizes=(2, 4))))
    assert story.scheduler.why("b", 1.0) == devices(2, 1, 4, "a")


def test_the_jobs_that_a_job_shares_devices_with_are_named() -> None:
    turns = {f"j{turn}": Allocation((Device("n0", 0),), turn=turn) for turn in range(3)}
    story = Story(Told(Schedule(dict(turns))), "1x1")
    story.tell(0.0, *(JobSubmitted(job(name)) for name in turns))
    story.runs(0.0, *turns)
    found = Reason("shares", {"size": 1, "jobs": ("j1", "j2")})
    assert story.scheduler.why("j0", 0.0) == found


@pytest.mark.parametrize("name", ["fifo", "afs", "weave-l"])
def test_a_job_on_a_device_that_was_closed_meanwhile(name: str) -> None:
    """A policy does not see that device any more, and can be asked all the same."""
    story = Story(name, "1x2")
    story.tell(0.0, JobSubmitted(job("a", size=1, length_s=100.0)))
    story.runs(0.0, "a")
    story.tell(1.0, DeviceClosed(Device("n0", 0), "a process that is not a job"))
    assert story.scheduler.why("a", 2.0).code == "running"
