"""How much work a job gets done on so many devices, in units that jobs have in common.

The unit is a device-second at the job's best: a job that runs at its most efficient size gets one
unit of work done for each device and second. Growing beyond that size gets less for each device.
Only corners of the upper hull are kept: between them a device brings less than the step as a whole.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple

from treadle.core.job import JobSpec, Profile
from treadle.core.ports import PerformanceModel, Revisable
from treadle.models.sizes.hull import upper_hull

Alone = Callable[[JobSpec, int], float]  # iterations a second by size

_REMEMBERED_MAX = 100_000
# Iterations a second: what is believed to be beyond is a wrong figure, and its ratios would not be
# finite.
_SLOWEST, _FASTEST = 1e-100, 1e100
_EACH_UP_TO = 8  # sizes, of which none is left out: devices of a machine


class Step(NamedTuple):
    """From one size to the next that is worth having."""

    size: int  # after it
    devices: int  # that it takes
    gain: float  # of each of them


class Curve(NamedTuple):
    """The sizes that are worth having, ascending."""

    steps: tuple[Step, ...]
    rates: dict[int, float]  # work a second, by size; also of sizes between the steps
    sizes: tuple[int, ...]  # those of the rates, ascending
    unit: float  # iterations a second for one unit of work a second


def curve(
    sizes: Sequence[int],
    speeds: Sequence[float],
    unit: float = 0.0,
    between: Collection[int] = (),
) -> Curve | None:
    """The curve through these points; None if the job runs at none of them.

    unit: iterations a second for one unit of work a second; 0: of the best size given.
    between: sizes at which no step ends, unless it is the last.
    """
    rows = zip(sizes, speeds, strict=True)
    points = [(size, speed) for size, speed in rows if _SLOWEST < speed < _FASTEST]
    if not points:
        return None
    unit = unit or max(speed / size for size, speed in points)
    rates: dict[int, float] = {}
    fastest = 0.0
    for size, speed in points:
        if speed / unit > fastest:  # A size that is no faster than a smaller one is none.
            fastest = rates[size] = speed / unit
    last = max(rates)
    ends = [row for row in rates.items() if row[0] == last or row[0] not in between]
    corners = [(0, 0.0), *upper_hull(ends, straight=True)]
    steps = tuple(
        Step(size, size - before, (rate - slower) / (size - before))
        for (before, slower), (size, rate) in pairwise(corners)
    )
    return Curve(steps, rates, tuple(rates), unit)


def few(spec: JobSpec) -> list[int]:
    """Powers of two, the smallest and the asked size: jobs of equal sizes can share devices."""
    always = (spec.sizes[0], spec.asked)
    return [size for size in spec.sizes if size & (size - 1) == 0 or size in always]


def _between(spec: JobSpec, sizes: Sequence[int]) -> list[int]:
    """Small sizes beside these: a job alone may have one, so that it need not give up half of its
    devices to let in a job that needs one of them."""
    return [size for size in spec.sizes if size <= _EACH_UP_TO and size not in sizes]


class Curves:
    """The curve of each job as a model believes it; jobs alike share one."""

    def __init__(self, belief: PerformanceModel, alone: Alone, *, resizes: bool) -> None:
        """resizes: jobs may have other sizes than they ask for."""
        self.speed = alone  # iterations a second on so many devices; 0: it does not run there
        self._resizes = resizes
        self._revisable = belief if isinstance(belief, Revisable) else None
        # The profile is kept so that its identity stays its own.
        self._known: dict[Hashable, tuple[Profile, Curve]] = {}

    def forget(self) -> None:
        """Ask the model again: it rests on something that changed."""
        self._known.clear()

    def of(self, spec: JobSpec, most: int = 0) -> Curve:
        """The job's curve; most: without larger sizes, for which there is no room; 0: all."""
        revisable = self._revisable
        basis = id(spec.profile) if revisable is None else revisable.basis(spec)
        limit = most if 0 < most < spec.sizes[-1] else 0
        key = (basis, spec.sizes, spec.asked, limit)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            known = self._known[key] = (spec.profile, self._made(spec, limit))
        return known[1]

    def _made(self, spec: JobSpec, limit: int) -> Curve:
        sizes = few(spec) if self._resizes else [spec.asked]
        between = _between(spec, sizes) if self._resizes else []
        unit = 0.0
        if limit:
            unit = self.of(spec).unit
            sizes = [size for size in sizes if size <= limit] or sizes[:1]
            between = [size for size in between if size <= limit]
        every = sorted([*sizes, *between])
        found = curve(every, [self.speed(spec, size) for size in every], unit, between)
        if found is not None:
            return found
        # A job that is believed to run nowhere is taken at its word for the asked size.
        size = spec.asked if spec.asked in sizes else sizes[-1]
        return Curve((Step(size, size, 1.0),), {size: float(size)}, (size,), 1.0)
