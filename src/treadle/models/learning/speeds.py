"""What was measured of one kind of jobs."""

from collections.abc import Mapping, Sequence

from treadle.models.fitted import Point
from treadle.models.learning.curves import Curve
from treadle.models.learning.rules import Rules


class Speeds:
    """Seconds of one unit of work, by size."""

    def __init__(self, rules: Rules, by_size: Mapping[int, Sequence[float]] | None = None) -> None:
        """`by_size`: what another `Speeds` had measured, in its order."""
        self._rules = rules
        # What the rules keep of each size, the newest last; the size that changed last stands last.
        self.by_size = {size: list(known) for size, known in (by_size or {}).items()}
        self._curve: Curve | None = None  # of what is measured now; None until it is asked for

    def add(self, size: int, seconds: float) -> bool:
        """Take a measurement in; whether it changed anything."""
        known = self.by_size.get(size, [])
        kept = self._rules.repeats.with_new(known, seconds)
        if kept is known:
            return False
        self.by_size.pop(size, None)
        self.by_size[size] = kept
        while len(self.by_size) > self._rules.sizes_max:
            del self.by_size[next(iter(self.by_size))]
        self._curve = None
        return True

    @property
    def points(self) -> tuple[Point, ...]:
        """The estimate at each measured size, by ascending size."""
        estimate = self._rules.repeats.estimate
        return tuple((size, estimate(self.by_size[size])) for size in sorted(self.by_size))

    @property
    def curve(self) -> Curve:
        """What follows for all sizes; something must have been measured."""
        if self._curve is None:
            self._curve = self._rules.curve(self.points)
        return self._curve

    def seconds(self, size: int) -> float:
        """One unit of work on so many devices, of a job that asks for as many."""
        return self.curve.seconds(size, size)
