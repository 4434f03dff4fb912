"""What a user may ask for, and how a job's counts move with time."""

from math import inf, nan

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.lifecycle import Phase

TWO = Allocation((Device("n0", 0), Device("n0", 1)))


def test_a_job_needs_an_id() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        JobSpec("", 1.0)
    assert str(refusal.value) == "a job needs an id"


@pytest.mark.parametrize(
    ("work", "shown"), [(0.0, "0"), (-2.5, "-2.5"), (inf, "inf"), (nan, "nan")]
)
def test_work_is_a_number_above_zero(work: float, shown: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        JobSpec("a", work)
    assert str(refusal.value) == f"job a has {shown} of work; expected a number above 0"


@pytest.mark.parametrize("sizes", [(), (0,), (-1, 2), (2, 1), (1, 1)])
def test_sizes_ascend_from_one(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        JobSpec("a", 1.0, sizes=sizes)
    assert str(refusal.value) == f"job a asks for sizes {sizes}; expected ascending numbers from 1"


def test_the_asked_size_is_one_of_the_sizes() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        JobSpec("a", 1.0, sizes=(2, 4), asked=3)
    assert str(refusal.value) == "job a asks for 3, not one of (2, 4)"


def test_without_an_asked_size_it_is_the_largest() -> None:
    assert JobSpec("a", 1.0, sizes=(2, 4)).asked == 4
    assert JobSpec("a", 1.0, sizes=(2, 4), asked=2).asked == 2


def test_several_sizes_mean_elastic() -> None:
    assert JobSpec("a", 1.0, sizes=(1, 2)).elastic
    assert not JobSpec("a", 1.0, sizes=(2,)).elastic


def test_an_iteration_is_its_stages_one_after_another() -> None:
    assert Profile(load_s=1.0, prepare_s=2.0, compute_s=4.0, sync_s=8.0).iteration_s == 15.0


def test_a_measured_iteration_counts_more_than_its_stages() -> None:
    assert Profile(load_s=1.0, compute_s=4.0, alone_s=4.5).iteration_s == 4.5


@pytest.mark.parametrize("curve", [((2, 1.0), (2, 0.5)), ((4, 1.0), (2, 0.5)), ((1, 0.0),)])
def test_a_scaling_curve_ascends_in_size_and_takes_time(
    curve: tuple[tuple[int, float], ...],
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        Profile(curve=curve)
    assert str(refusal.value) == f"a scaling curve must ascend in size, not {curve}"


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


def test_work_is_never_carried_past_the_end() -> None:
    assert running().iterations_at(1000.0) == 100.0
    assert running().remaining_at(1000.0) == 0.0


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
