"""The upper hull of speeds by size."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.models.sizes.hull import Point, upper_hull

POINTS = [(1, 1.0), (2, 2.0), (3, 2.5), (4, 4.0), (8, 5.0)]


def test_points_on_a_straight_line_are_corners_if_wanted() -> None:
    assert upper_hull(POINTS, straight=True) == [(1, 1.0), (2, 2.0), (4, 4.0), (8, 5.0)]
    assert upper_hull(POINTS, straight=False) == [(4, 4.0), (8, 5.0)]


@given(st.dictionaries(st.integers(1, 64), st.floats(0.1, 100.0), min_size=1))
def test_no_point_is_above_the_hull(speeds: dict[int, float]) -> None:
    points = sorted(speeds.items())
    corners = [(0, 0.0), *upper_hull(points, straight=False)]
    assert corners[-1] == points[-1]
    for size, speed in points:
        assert speed <= _height(corners, size) * (1 + 1e-6)


def _height(corners: list[Point], size: int) -> float:
    after = next(i for i, (x, _) in enumerate(corners) if x >= size)
    (x0, y0), (x1, y1) = corners[after - 1], corners[after]
    return y0 + (y1 - y0) * (size - x0) / (x1 - x0)
