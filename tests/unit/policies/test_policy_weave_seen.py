"""weave with many jobs: a decision costs and moves what has changed, and all is laid out anew now
and then."""

from random import Random

import pytest

from tests.unit.policies.weave_world import COMPUTES, LOADS, World, submitted
from treadle.core.cluster import Device
from treadle.core.events import JobFinished, JobSubmitted
from treadle.models.sizes.work import Curve
from treadle.policies.weave.seen import Devices, Mark, News, Seen

NAMES = pytest.mark.parametrize("name", ["weave", "weave-l"])


def many(count: int) -> list[JobSubmitted]:
    """Rigid and elastic jobs of two kinds that share well."""
    random = Random(3)
    sizes = [random.choice(((1,), (2,), (1, 2, 4))) for _ in range(count)]
    return [
        submitted(f"j{n}", random.uniform(1e4, 1e6), own, LOADS if n % 2 else COMPUTES)
        for n, own in enumerate(sizes)
    ]


def devices(number: int) -> Devices:
    return (Device("n", number),)


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


@NAMES
def test_a_short_job_among_many_long_ones_takes_a_place_at_once(name: str) -> None:
    """All devices are taken by jobs that share with none, and there are too many to lay out anew
    for each that comes."""
    world = World(f"{name}?group=1", *(8,) * 25)
    world.step(0.0, *(submitted(f"j{n}", 1e6) for n in range(220)))
    world.step(5000.0, submitted("tick", 1e6))
    world.step(9001.0, submitted("short", 1e4))
    assert world.size("short")


def test_what_is_new_is_found_by_devices_and_jobs() -> None:
    one, two, three = (devices(number) for number in range(3))
    slow, fast = (Curve((), {1: rate}, (1,), 1.0) for rate in (1.0, 2.0))
    same = {one: [Mark("a", 0, 0, slow)], two: [Mark("b", 0, 0, slow)]}
    seen = Seen(same, {}, {"c": slow}, 0)
    assert not seen.news(same, {"c": slow})
    assert seen.news(same, {"c": slow}, "a pair was measured") == News(changes=1)
    others = {one: [Mark("a", 1, 0, slow)], three: [Mark("d", 0, 0, slow)]}
    assert seen.news(others, {"c": slow, "e": slow}) == News({three}, {one}, {"e"}, 4)
    learned = {one: [Mark("a", 0, 0, fast)], two: [Mark("b", 0, 0, slow)]}
    assert seen.news(learned, {"c": fast}) == News(softer={one}, came={"c"}, changes=2)


def test_what_was_planned_and_not_made_is_not_new() -> None:
    one, two, three = (devices(number) for number in range(3))
    slow = Curve((), {1: 1.0}, (1,), 1.0)
    a, b, c = (Mark(name, 0, 0, slow) for name in "abc")
    found = {one: [a], two: [b]}
    seen = Seen({one: [b], two: [a], three: [c]}, found, {"c": slow}, 0)
    assert not seen.news(found, {"c": slow})
    assert not seen.news({one: [b], two: [a], three: [c]}, {})
    assert seen.news({one: [a], three: [b]}, {"c": slow}) == News({three}, changes=1)
    older = {one: [a._replace(settled=1)], two: [b]}
    assert seen.news(older, {"c": slow}) == News(softer={one}, changes=1)
    joined = Seen({one: [a, b]}, {one: [a]}, {}, 0)
    assert not joined.news({one: [a]}, {"b": slow}).changed
    assert joined.news({one: [a]}, {}).changed == {one}, "b began, and ended"


@pytest.mark.parametrize(("changes", "far"), [(-1, True), (0, False), (24, False), (25, True)])
def test_all_is_laid_out_anew_at_first_and_after_one_change_for_four_jobs(
    changes: int, far: bool
) -> None:
    assert Seen(changes=changes).is_far(News(), jobs=100) == far
