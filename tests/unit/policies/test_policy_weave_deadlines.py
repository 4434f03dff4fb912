"""weave: a deadline adds to what a job is worth."""

from dataclasses import replace

import pytest

from tests.unit.policies.weave_world import COMPUTES, World
from treadle.core.events import JobSubmitted
from treadle.core.job import JobSpec
from treadle.policies.weave.weave import urgency


def spec(name: str, work: float, sizes: tuple[int, ...] = (1,)) -> JobSpec:
    return JobSpec(name, work, sizes, profile=COMPUTES)


@pytest.mark.parametrize(
    ("left_s", "allowed_s", "found"),
    [(50.0, 100.0, 0.5), (100.0, 100.0, 1.0), (101.0, 100.0, 0.0), (5.0, -1.0, 0.0)],
)
def test_urgency_is_the_share_of_time_that_is_needed(
    left_s: float, allowed_s: float, found: float
) -> None:
    assert urgency(left_s, allowed_s) == found


@pytest.mark.parametrize(("deadline_s", "first"), [(1400.0, "late"), (900.0, "soon")])
def test_a_deadline_that_can_be_made_goes_before_a_job_a_little_shorter(
    deadline_s: float, first: str
) -> None:
    """The job of 1,000 s has 1,400 s or 900 s, and one of 900 s has no deadline."""
    world = World("weave?power=1&deadline=3", 1)
    late = replace(spec("late", 1000.0), deadline_at=deadline_s)
    world.step(0.0, JobSubmitted(late), JobSubmitted(spec("soon", 900.0)))
    assert {name: world.size(name) for name in ("late", "soon")} == {
        name: int(name == first) for name in ("late", "soon")
    }


def test_a_deadline_counts_by_the_fastest_size_for_which_there_are_devices() -> None:
    """On eight devices the job would have plenty of time; on the one that there is it has not."""
    world = World("weave?power=1&deadline=3", 1)
    late = replace(spec("late", 1000.0, (1, 2, 4, 8)), asked=1, deadline_at=1400.0)
    world.step(0.0, JobSubmitted(late), JobSubmitted(spec("soon", 900.0)))
    assert (world.size("late"), world.size("soon")) == (1, 0)


def test_without_lengths_a_deadline_counts_by_what_the_user_said() -> None:
    world = World("weave-l?power=1&deadline=3", 1)
    late = replace(spec("late", 1000.0), deadline_at=1400.0, estimate_s=1000.0)
    world.step(0.0, JobSubmitted(spec("soon", 900.0)), JobSubmitted(late))
    assert (world.size("late"), world.size("soon")) == (1, 0)
