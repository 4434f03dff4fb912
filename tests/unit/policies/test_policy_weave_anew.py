"""weave with many jobs: a decision costs and moves what has changed, and all is planned anew now
and then."""

from random import Random

import pytest

from tests.unit.policies.weave_world import COMPUTES, LOADS, World, submitted
from treadle.core.events import JobFinished, JobSubmitted
from treadle.policies.weave.anew import MANY, Anew

NAMES = pytest.mark.parametrize("name", ["weave", "weave-l"])


def many(count: int) -> list[JobSubmitted]:
    """Rigid and elastic jobs of two kinds that share well."""
    random = Random(3)
    sizes = [random.choice(((1,), (2,), (1, 2, 4))) for _ in range(count)]
    return [
        submitted(f"j{n}", random.uniform(1e4, 1e6), own, LOADS if n % 2 else COMPUTES)
        for n, own in enumerate(sizes)
    ]


def held(world: World) -> dict[str, object]:
    return {job.id: job.allocation for job in world.scheduler.jobs.values() if job.allocation}


@NAMES
def test_one_job_that_ends_and_one_that_comes_move_few_of_many(name: str) -> None:
    world = World(name, *(8,) * 16)
    world.step(0.0, *many(300))
    world.step(60.0, submitted("first", 1e5))
    before = held(world)
    ends = next(iter(before))
    world.step(120.0, JobFinished(ends, world.scheduler.jobs[ends].action), submitted("one", 1e5))
    after = held(world)
    moved = [job for job in before if job != ends and after.get(job) != before[job]]
    assert len(moved) <= 8


def test_a_short_job_among_many_long_ones_waits_for_the_next_plan_at_most() -> None:
    """All devices are taken by jobs that share with none, and there are too many to plan anew for
    each; ten minutes later at most the shortest job has a device."""
    world = World("weave?group=1", *(8,) * 25)
    world.step(0.0, *(submitted(f"j{n}", 1e6) for n in range(220)))
    world.step(5000.0, submitted("tick", 1e6))
    world.step(5001.0, submitted("short", 1e4))
    assert not world.size("short")
    assert world.scheduler.wake_at <= 5600.0
    now = 5001.0
    while now < 5600.0:
        now = min(world.scheduler.wake_at, 5600.0)
        world.step(now)
    assert world.size("short")


def test_with_few_jobs_all_is_planned_every_time() -> None:
    anew = Anew(0.0, MANY - 1)
    assert not anew.holds(1.0, MANY - 1, MANY - 1)


@pytest.mark.parametrize(
    ("now", "jobs", "decisions", "holds"),
    [(1.0, 1000, 0, True), (1.0, 1000, 9, False), (1.0, 1010, 0, False), (600.0, 1000, 0, False)],
)
def test_a_plan_holds_until_one_in_a_hundred_jobs_may_have_changed_or_for_ten_minutes(
    now: float, jobs: int, decisions: int, holds: bool
) -> None:
    anew = Anew(0.0, 1000)
    for _ in range(decisions):
        anew = anew.later()
    assert anew.holds(now, jobs, 1000) == holds
