"""The history of an attempt: bounded, finer for what is newer, kept as a few bytes."""

import itertools

from treadle.control.learning.load_history import LEVELS, History, packed, unpacked
from treadle.core.sighting import Load

DAY_S = 86_400


def told(seconds: int, every_s: int = 2) -> History:
    history = History()
    for at in range(0, seconds, every_s):
        busy = 1.0 if at % 4 else 0.5
        history.add(Load(busy=busy, cores=2.0), float(at), alone=True, wall_at=1000.0 + at)
    return history


def test_points_follow_each_other_without_overlap_and_get_finer() -> None:
    points = told(3 * 3600).points()
    for before, after in itertools.pairwise(points):
        assert before.at + before.span_s <= after.at
        assert before.span_s >= after.span_s
    assert points[0].at == 0.0
    assert points[-1].at == 3 * 3600 - 2
    assert {point.span_s for point in points} == {2.0, 30.0, 300.0}


def test_a_week_has_no_more_points_than_the_levels_allow() -> None:
    points = told(7 * DAY_S, every_s=30).points()
    assert len(points) <= sum(most for _, most in LEVELS) + len(LEVELS)
    assert len(packed(points)) < 20_000


def test_a_point_has_the_mean_and_the_maximum_of_what_was_measured() -> None:
    points = told(3 * 3600).points()
    coarse = next(point for point in points if point.span_s == 30.0)
    assert abs((coarse.mean.busy or 0.0) - 0.75) < 0.05
    assert coarse.most.busy == 1.0
    assert coarse.mean.device_memory_gib is None


def test_a_stored_history_is_read_back_and_goes_on() -> None:
    first = told(600)
    again = History.of(unpacked(packed(first.points())), first.started_at)
    assert again.points() == first.points()
    again.add(Load(busy=0.25), 5.0, alone=False, wall_at=1000.0 + 660.0)
    newest = again.points()[-1]
    assert (newest.at, newest.mean.busy, newest.alone) == (660.0, 0.25, False)
