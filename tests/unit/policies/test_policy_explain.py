"""Why a job waits or holds what it holds, word for word."""

import pytest

from tests.unit.stories import Story, Told
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import DeviceClosed, JobCancelled, JobSubmitted, NodeLost
from treadle.core.snapshot import Reason, Schedule
from treadle.policies.base.placement import placement
from treadle.policies.base.why_waiting import why_waiting
from treadle.testing.builders import job


def why(story: Story, name: str, now: float) -> tuple[str, str]:
    reason = story.scheduler.why(name, now)
    assert isinstance(reason, Reason)
    return reason.cause, reason.sentence


def test_a_job_that_starts_and_then_runs() -> None:
    story = Story("fifo", "2x4")
    story.tell(10.0, JobSubmitted(job("a", size=6, length_s=40.0)))
    where = "it holds 6 devices (4 on n0, 2 on n1; all it asked for)"
    assert why(story, "a", 10.0) == ("starting", f"{where} since 0 s ago, 0.0 % done")
    story.runs(10.0, "a")
    assert why(story, "a", 12.5) == ("running", f"{where} since 2.5 s ago, 6.2 % done")


def test_a_job_that_holds_less_than_it_asked_for() -> None:
    story = Story("max-min", "1x1")
    story.tell(0.0, JobSubmitted(job("a", size=2, sizes=(1, 2))))
    assert why(story, "a", 0.0) == (
        "starting",
        "it holds 1 device (1 on n0; it asked for 2) since 0 s ago, 0.0 % done",
    )


def test_a_job_that_was_given_other_devices_since_its_start() -> None:
    """1. It starts at 0 and runs. 2. At 10 it is moved to another node. 3. At 14 it runs."""
    first, second = (Allocation((Device(node, 0),)) for node in ("n0", "n1"))
    told = Told(Schedule({"a": first}))
    story = Story(told, "2x1")
    story.tell(0.0, JobSubmitted(job("a", length_s=40.0)))
    story.runs(0.0, "a")
    told.answers.append(Schedule({"a": second}))
    story.tell(10.0, JobSubmitted(job("b", length_s=40.0)))
    there = "it holds 1 device (1 on n1; all it asked for)"
    assert _why_now(story, 13.0) == ("starting", f"{there} since 3 s ago, 25.0 % done")
    story.runs(14.0, "a")
    assert _why_now(story, 16.0) == ("running", f"{there}, where it has run for 2 s, 30.0 % done")


def _why_now(story: Story, now: float) -> tuple[str, str]:
    here = story.scheduler.snapshot(now)
    reason = why_waiting(here, "a", placement("consolidate"), in_order=False)
    return reason.cause, reason.sentence


@pytest.mark.parametrize("name", ["fifo", "backfill", "srtf", "max-min", "themis"])
def test_a_job_for_which_too_few_devices_are_free(name: str) -> None:
    story = Story(name, "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=3, length_s=1.0)))
    story.tell(1.0, JobSubmitted(job("b", size=2)))
    needs, in_order = "it asks for 2 devices and 1 of 4 is free", name == "fifo"
    first = f"{needs}; no job ranks ahead of it" if in_order else needs
    assert why(story, "b", 1.0) == ("devices", first)
    story.tell(2.0, JobSubmitted(job("c", size=2)))
    second = f"{needs}; 1 job ranks ahead of it" if in_order else needs
    assert why(story, "c", 2.0) == ("devices", second), "a rank is no order where jobs overtake"


def test_a_job_for_which_enough_are_free_in_the_wrong_places() -> None:
    story = Story("backfill", "2x4")
    for name in ("a", "b"):
        story.tell(0.0, JobSubmitted(job(name, size=3)))
    story.tell(1.0, JobSubmitted(job("c", size=2)))
    cause, sentence = why(story, "c", 1.0)
    assert cause == "fragmentation"
    assert sentence == (
        "it asks for 2 devices and 2 are free, but not where it needs them: "
        "the emptiest node has 1 free"
    )


def test_a_job_that_fits_and_may_not_overtake() -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=2)))
    story.tell(1.0, JobSubmitted(job("b", size=4)), JobSubmitted(job("c", size=1)))
    cause, sentence = why(story, "c", 1.0)
    assert cause == "order"
    assert sentence == (
        "2 devices are free and it asks for 1, but this policy lets no job overtake, "
        "and job b ahead of it waits for 4"
    )
    story.tell(2.0, JobCancelled("b"))
    story.tell(2.0, JobSubmitted(job("d", size=2)))
    story.tell(2.0, JobSubmitted(job("e", size=1)))
    assert why(story, "e", 2.0)[1].startswith("1 device is free and it asks for 1, but")


def test_a_job_that_fits_and_is_about_to_be_started() -> None:
    """Between two looks of a policy a job may wait although it fits."""
    story = Story("backfill", "1x4")
    story.scheduler.take([JobSubmitted(job("a")), JobSubmitted(job("b"))], 0.0)
    assert why(story, "b", 0.0) == (
        "rank",
        "it ranks behind 1 waiting job and is started when its turn comes",
    )


def test_a_job_that_is_on_its_way_out_ranks_behind_every_other() -> None:
    story = Story("fifo", "2x4")
    story.tell(0.0, JobSubmitted(job("a", size=4)))
    story.tell(0.0, JobSubmitted(job("b", size=4)), JobSubmitted(job("c", size=4)))
    story.tell(1.0, NodeLost("n0"))
    assert story.phases() == "a:stopping b:starting c:waiting"
    assert why(story, "a", 1.0) == (
        "devices",
        "it asks for 4 devices and all 4 are taken; 1 job ranks ahead of it",
    )


def test_a_policy_that_decides_sizes_counts_the_size_that_a_rigid_job_asks_for() -> None:
    story = Story("max-min", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=2)))
    story.tell(1.0, JobSubmitted(job("b", size=3)))
    assert why(story, "b", 1.0) == (
        "devices",
        "it asks for 3 devices and 2 of 4 are free",
    )


def test_a_policy_that_decides_sizes_counts_the_least_that_an_elastic_job_can_use() -> None:
    story = Story("max-min", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=3)))
    story.tell(1.0, JobSubmitted(job("b", size=4, sizes=(2, 4))))
    assert why(story, "b", 1.0) == (
        "devices",
        "it needs at least 2 devices and 1 of 4 is free",
    )


def test_a_policy_that_decides_sizes_lets_jobs_overtake() -> None:
    story = Story("max-min", "1x4")
    story.scheduler.take([JobSubmitted(job("a")), JobSubmitted(job("b"))], 0.0)
    assert why(story, "b", 0.0)[0] == "rank"


def test_a_job_that_finds_no_node_hears_of_the_emptiest() -> None:
    """One device is free on n0 and two on n1."""
    story = Story("fifo", "2x4")
    story.tell(0.0, JobSubmitted(job("a", size=3)), JobSubmitted(job("b", size=2)))
    story.tell(1.0, JobSubmitted(job("c", size=3)))
    cause, sentence = why(story, "c", 1.0)
    assert cause == "fragmentation"
    assert sentence == (
        "it asks for 3 devices and 3 are free, but not where it needs them: "
        "the emptiest node has 2 free"
    )


def test_a_job_that_never_fits() -> None:
    story = Story("srtf", "2x4")
    story.tell(0.0, JobSubmitted(job("a", size=9)))
    assert why(story, "a", 0.0) == (
        "never fits",
        "it can never run here: it asks for 9 devices and the cluster has 8",
    )


def test_a_job_half_of_which_is_done() -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a", length_s=40.0)))
    story.runs(0.0, "a")
    assert why(story, "a", 20.0)[1].endswith("since 20 s ago, 50.0 % done")


@pytest.mark.parametrize(
    ("others", "named"),
    [
        (0, ""),
        (1, ", and shares them with job j1"),
        (2, ", and shares them with jobs j1, j2"),
        (4, ", and shares them with jobs j1, j2, j3, j4"),
        (6, ", and shares them with jobs j1, j2, j3, j4 and 2 more"),
    ],
)
def test_the_jobs_that_a_job_shares_devices_with_are_named_up_to_four(
    others: int, named: str
) -> None:
    turns = {f"j{turn}": Allocation((Device("n0", 0),), turn=turn) for turn in range(others + 1)}
    story = Story(Told(Schedule(dict(turns))), "1x1")
    story.tell(0.0, *(JobSubmitted(job(name)) for name in turns))
    reason = why_waiting(
        story.scheduler.snapshot(0.0), "j0", placement("consolidate"), in_order=False
    )
    assert reason.sentence == (
        f"it holds 1 device (1 on n0; all it asked for) since 0 s ago, 0.0 % done{named}"
    )


@pytest.mark.parametrize("name", ["fifo", "afs", "weave-l"])
def test_a_job_on_a_device_that_was_closed_meanwhile(name: str) -> None:
    """A policy does not see that device any more, and can be asked all the same."""
    story = Story(name, "1x2")
    story.tell(0.0, JobSubmitted(job("a", size=1, length_s=100.0)))
    story.runs(0.0, "a")
    story.tell(1.0, DeviceClosed(Device("n0", 0), "a process that is not a job"))
    assert why(story, "a", 2.0) == (
        "running",
        "it holds 1 device (1 on n0; all it asked for) since 2 s ago, 2.0 % done",
    )
