"""Jobs, and their rows."""

from math import inf, nan
from typing import Any

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.lifecycle import Phase

TWO = Allocation((Device("n0", 0), Device("n0", 1)))


@pytest.mark.parametrize(
    "fields",
    [
        {"id": ""},
        *({"iterations": work} for work in (0.0, -2.5, inf, nan)),
        *({"sizes": sizes} for sizes in ((), (0,), (-1, 2), (2, 1), (1, 1))),
        {"sizes": (2, 4), "asked": 3},
    ],
)
def test_a_job_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        JobSpec(**{"id": "a", "iterations": 1.0, **fields})


@pytest.mark.parametrize("curve", [((2, 1.0), (2, 0.5)), ((4, 1.0), (2, 0.5)), ((1, 0.0),)])
def test_a_scaling_curve_ascends_in_size_and_takes_time(
    curve: tuple[tuple[int, float], ...],
) -> None:
    with pytest.raises(InvalidInputError):
        Profile(curve=curve)
    with pytest.raises(InvalidInputError):
        Profile(compute_s=0.0)


def running(**fields: float) -> Job:
    """A job of 100 iterations at 2 a second on two devices, last seen at 10 s."""
    row = Job(
        JobSpec("a", 100.0, sizes=(2,)),
        sequence=0,
        phase=Phase.RUNNING,
        submitted_at=0.0,
        since_at=10.0,
        allocation=TWO,
        iterations_done=20.0,
        iterations_per_s=2.0,
        observed_at=10.0,
        held_s=5.0,
        service_s=10.0,
    )
    return row._replace(**fields)  # type: ignore[arg-type]


def test_counts_are_carried_forward_at_the_last_reported_speed() -> None:
    job = running()
    assert job.iterations_at(15.0) == 30.0
    assert job.remaining_at(15.0) == 70.0
    assert job.held_at(15.0) == 10.0
    assert job.service_at(15.0) == 20.0


def test_a_job_that_waits_stands_still() -> None:
    job = running()._replace(allocation=None, iterations_per_s=0.0)
    assert (job.size, job.iterations_at(99.0)) == (0, 20.0)
    assert (job.held_at(99.0), job.service_at(99.0)) == (5.0, 10.0)
    assert job.settled(99.0) == job._replace(observed_at=99.0)


def test_settling_changes_what_is_written_and_not_what_is_true() -> None:
    job = running()
    settled = job.settled(15.0)
    assert settled.observed_at == 15.0
    for moment in (15.0, 17.0, 60.0):
        assert settled.iterations_at(moment) == job.iterations_at(moment)
        assert settled.held_at(moment) == job.held_at(moment)
        assert settled.service_at(moment) == job.service_at(moment)


# -- what is assumed of what is not said -----------------------------------------------------------


def test_a_job_may_be_tried_on_one_device_only_if_it_says_so() -> None:
    assert [JobSpec("a", 5.0, sizes=(2, 4)).runs_on(size) for size in (1, 2, 3, 4)] == [
        False,
        True,
        False,
        True,
    ]
    tried = JobSpec("a", 5.0, sizes=(2, 4), trial=True)
    assert [tried.runs_on(size) for size in (1, 2, 3, 4)] == [True, True, False, True]
    assert not JobSpec("a", 5.0, sizes=(2,)).elastic
    assert tried.elastic


# -- what a policy answers unless it says otherwise ------------------------------------------------


# -- Rows that are written whole, which is quicker, are those that `_replace` would write ----------


HELD = Allocation((Device("n0", 0), Device("n0", 1)))

# Every number another, so that none can stand in another's place.
ROW = Job(
    JobSpec("a", 50.0),
    *(3, Phase.WAITING, 1.0, 2.0, None, 0.5, 0.25, 1.5, 7.0, 8.0, 4, 5, 9.0, 10.0, 2, 1, 11.0),
    ("n7",),
    None,
    12.0,
)


def test_a_start() -> None:
    started = ROW._replace(
        phase=Phase.STARTING,
        iterations_per_s=0.0,
        since_at=20.0,
        observed_at=20.0,
        allocation=HELD,
        action=77,
        attempt=77,
        begun_at=20.0,
        last_wait_s=18.0,
        starts=3,
        waited_s=30.0,
    )
    assert ROW.given(Phase.STARTING, HELD, 77, 20.0) == started
    at_once = started._replace(phase=Phase.RUNNING, iterations_per_s=0.75)
    assert ROW.given(Phase.RUNNING, HELD, 77, 20.0, 0.75) == at_once


@pytest.mark.parametrize("after", [None, Allocation((Device("n1", 0),))])
def test_a_stop_or_a_change(after: Allocation | None) -> None:
    held = ROW._replace(allocation=HELD)
    assert held.moved(Phase.STARTING, after, 77, 20.0) == held._replace(
        phase=Phase.STARTING,
        since_at=20.0,
        allocation=after,
        iterations_done=held.iterations_at(20.0),
        iterations_per_s=0.0,
        observed_at=20.0,
        held_s=held.held_at(20.0),
        service_s=held.service_at(20.0),
        action=77,
    )
