"""What was measured of an attempt over time, at decreasing resolution.

The newest two minutes are kept every 2 s, the last hour every 30 s, the last four hours every
5 minutes, the last week every hour: a fixed number of points, however long the job runs. Each point
has the mean and the maximum of what was measured in its span.
"""

import zlib
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from treadle.core.job import JobId
from treadle.core.sighting import Load

LEVELS = ((2.0, 60), (30.0, 120), (300.0, 48), (3600.0, 168))  # seconds of a point, points
DIGITS = 4
_WIDTH = len(Load._fields)
_NOTHING = (None,) * _WIDTH


class Point(NamedTuple):
    """One span of time; `at` counts from the first measurement of the attempt."""

    at: float
    span_s: float
    mean: Load
    most: Load
    alone: bool = True  # no other job was on its devices, at any time of the span


class _Open:
    """The point that is being made."""

    __slots__ = ("alone", "at", "counts", "most", "sums")

    def __init__(self, at: float) -> None:
        self.at = at
        self.sums = [0.0] * _WIDTH
        self.counts = [0] * _WIDTH
        self.most: list[float | None] = list(_NOTHING)
        self.alone = True

    def add(self, load: Load, *, alone: bool) -> None:
        self.alone = self.alone and alone
        for place, value in enumerate(load):
            if value is not None:
                self.sums[place] += value
                self.counts[place] += 1
        self.add_most(load)

    def add_most(self, load: Load) -> None:
        for place, value in enumerate(load):
            if value is not None:
                most = self.most[place]
                self.most[place] = value if most is None else max(most, value)

    def point(self, span_s: float) -> Point:
        pairs = zip(self.sums, self.counts, strict=True)
        means = [round(total / count, DIGITS) if count else None for total, count in pairs]
        most = [None if value is None else round(value, DIGITS) for value in self.most]
        return Point(round(self.at, 1), span_s, Load(*means), Load(*most), self.alone)


class History:
    """The points of one attempt."""

    def __init__(self) -> None:
        self._levels: list[deque[Point]] = [deque(maxlen=most) for _, most in LEVELS]
        self._open: list[_Open | None] = [None] * len(LEVELS)
        self._base: float | None = None  # the run's clock at the first measurement
        self.started_at = 0.0  # seconds since 1970, of the first measurement

    @classmethod
    def of(cls, points: Iterable[Point], started_at: float) -> "History":
        """Go on with a history that an earlier controller wrote."""
        history = cls()
        history.started_at = started_at
        for point in points:
            for level, (span_s, _) in enumerate(LEVELS):
                if span_s == point.span_s:
                    history._levels[level].append(point)
                elif span_s > point.span_s:  # The coarser points go on as well.
                    made = history._at(level, point.at)
                    made.add(point.mean, alone=point.alone)
                    made.add_most(point.most)
        return history

    def add(self, load: Load, at: float, *, alone: bool, wall_at: float) -> None:
        """A measurement; `at` by the run's clock, `wall_at` in seconds since 1970."""
        if self._base is None:
            self.started_at = self.started_at or wall_at
            self._base = at - max(0.0, wall_at - self.started_at)
        offset = max(0.0, at - self._base)
        for level in range(len(LEVELS)):
            self._at(level, offset).add(load, alone=alone)

    def _at(self, level: int, offset: float) -> _Open:
        """The point of a level that has this moment; the one before it is closed."""
        span_s = LEVELS[level][0]
        start = offset // span_s * span_s
        point = self._open[level]
        if point is None or point.at != start:
            if point is not None:
                self._levels[level].append(point.point(span_s))
            point = self._open[level] = _Open(start)
        return point

    def points(self) -> tuple[Point, ...]:
        """From the oldest on; each moment once, at the finest resolution there is."""
        found: list[Point] = []
        until = float("inf")
        for level, (span_s, most) in enumerate(LEVELS):
            point = self._open[level]
            have = [*self._levels[level], *([] if point is None else [point.point(span_s)])][-most:]
            kept = [each for each in have if each.at + each.span_s <= until]
            found = [*kept, *found]
            if kept:
                until = kept[0].at
        return tuple(found)


class Tally(msgspec.Struct):
    """The sum of a figure over time, and for how many seconds it was known."""

    total: float
    seconds: float


class Spell(msgspec.Struct):
    """Seconds with the same jobs, and steps done in them."""

    others: tuple[JobId, ...]  # none: alone
    seconds: float
    steps: float
    mps: bool


class SoFar(msgspec.Struct, kw_only=True):
    """All that a Sighting is made of, but for moments: the next controller goes on with it."""

    spells: list[Spell] = []
    alone: dict[str, Tally] = {}  # by the fields of Load
    shared: dict[str, Tally] = {}
    starting: dict[str, Tally] = {}
    device_memory_peak_gib: float | None = None
    memory_peak_gib: float | None = None
    energy_j: float | None = None
    busy: tuple[float, int] = (0.0, 0)  # sum and count of what was measured
    trains: bool = False
    longest_s: float = 0.0


class _Body(msgspec.Struct, array_like=True):
    """A stored history: the numbers of a point in the order of its fields."""

    points: list[tuple[float, float, list[float | None], list[float | None], bool]]
    so_far: SoFar | None = None  # only while the attempt runs


def packed(points: Iterable[Point], so_far: SoFar | None = None) -> bytes:
    """Points as the store keeps them."""
    rows = [(p.at, p.span_s, list(p.mean), list(p.most), p.alone) for p in points]
    return zlib.compress(msgspec.json.encode(_Body(rows, so_far)), 6)


def so_far_in(body: bytes) -> SoFar | None:
    """What else was stored of an attempt that ran."""
    return msgspec.json.decode(zlib.decompress(body), type=_Body).so_far


def unpacked(body: bytes) -> tuple[Point, ...]:
    found = msgspec.json.decode(zlib.decompress(body), type=_Body)
    return tuple(
        Point(at, span_s, Load(*mean), Load(*most), alone)
        for at, span_s, mean, most, alone in found.points
    )
