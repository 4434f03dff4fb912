"""What several users did, each counting as much as any other, whatever one has run.

Newcomers are told this, and every job that ends changes it by one user. The points of all users
are kept in order, and only those of users that changed are replaced: with 300 users that takes
a fiftieth of the time that making it anew does.
"""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate

from treadle.models.learning.experts import Blurred, Expert
from treadle.models.learning.kind_history import HALF_LIVES, Evidence
from treadle.models.learning.kinds import Kind
from treadle.models.lengths.distribution import NEARLY, Lengths, Point, mixed, tail_points

TAIL_DOUBT = 0.25  # that the next is longer than all: as likely as this over the runs seen
EVEN_POINTS = 128  # of a forecast by several users


class EvenUsers:
    """The forecasts of one kind of everything, by the same part of each user's jobs."""

    def __init__(self) -> None:
        self._memories = [_Memory(half_life) for half_life in HALF_LIVES]
        self._stale: dict[Kind, None] = {}

    def forget(self, user: Kind) -> None:
        """Something was learned of this user."""
        self._stale[user] = None

    def experts(self, label: str, users: Mapping[Kind, Evidence]) -> list[Expert]:
        """By users of whom jobs have ended, those named in the same order every time."""
        for at, memory in enumerate(self._memories):
            memory.follow(users, self._stale, at)
        self._stale = {}
        return [expert for memory in self._memories if (expert := memory.expert(label)) is not None]


class _Memory:
    """The points of all users by one half-life."""

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        # Of all users in order, and beside each its mass and its share of the mean: sums of plain
        # lists take a tenth of the time.
        self._points: list[Point] = []
        self._masses: list[float] = []
        self._moments: list[float] = []
        self._lengths: dict[Kind, Lengths] = {}
        self._runs: dict[Kind, float] = {}

    def follow(self, users: Mapping[Kind, Evidence], stale: Mapping[Kind, None], at: int) -> None:
        """Replace what changed; at: which of a user's histograms this is."""
        for name in [name for name in self._runs if name not in users or name in stale]:
            self._remove(name)
        for name, user in users.items():
            if name not in self._runs and at < len(user.histograms):
                histogram = user.histograms[at]
                self._runs[name] = histogram.runs
                lengths = histogram.lengths(TAIL_DOUBT)
                if lengths is not None:
                    self._lengths[name] = lengths
                    self._add(lengths)

    def expert(self, label: str) -> Expert | None:
        if not self._lengths:
            return None
        only, *others = self._lengths.values()
        lengths = self._mixed() if others else only
        runs = sum([self._runs[name] for name in sorted(self._runs)])
        return Expert(f"{label} {self._half_life:g}", Blurred(lengths, runs))

    def _mixed(self) -> Lengths:
        """As `mixture` and `thinned` make it, but by sums up to each point."""
        count = len(self._points)
        if count <= EVEN_POINTS:
            return mixed(self._points)
        masses = list(accumulate(self._masses, initial=0.0))
        moments = list(accumulate(self._moments, initial=0.0))
        share = masses[-1] / EVEN_POINTS * NEARLY
        groups: list[Point] = []
        start = 0
        while start < count:
            end = min(count, bisect_left(masses, masses[start] + share, start + 1))
            mass = masses[end] - masses[start]
            groups.append(((moments[end] - moments[start]) / mass, mass))
            start = end
        return mixed(groups, longest_s=self._points[-1][0])

    def _add(self, lengths: Lengths) -> None:
        for point in _points(lengths):
            at = bisect_left(self._points, point)
            self._points.insert(at, point)
            self._masses.insert(at, point[1])
            self._moments.insert(at, point[0] * point[1])

    def _remove(self, name: Kind) -> None:
        del self._runs[name]
        lengths = self._lengths.pop(name, None)
        for point in () if lengths is None else _points(lengths):
            at = bisect_left(self._points, point)
            del self._points[at], self._masses[at], self._moments[at]


def _points(lengths: Lengths) -> list[Point]:
    return [(at, mass) for at, mass in (*lengths.points, *tail_points(lengths)) if mass > 0]
