"""The upper hull of speeds by size: between its corners a device brings less than a whole step."""

from collections.abc import Iterable

Point = tuple[int, float]  # size and speed

_ROUNDING = 1e-9


def upper_hull(points: Iterable[Point], *, straight: bool) -> list[Point]:
    """The corners of the upper hull from no devices, given points of ascending size.

    straight: points on a straight line between two corners are corners too, but for rounding.
    """
    corners: list[Point] = [(0, 0.0)]
    for point in points:
        while len(corners) > 1:
            before, after = _slope(corners[-2], corners[-1]), _slope(corners[-1], point)
            if before >= after * (1.0 - _ROUNDING) if straight else before > after:
                break
            corners.pop()
        corners.append(point)
    return corners[1:]


def _slope(one: Point, other: Point) -> float:
    return (other[1] - one[1]) / (other[0] - one[0])
