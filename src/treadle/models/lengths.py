"""How long a whole job takes at each size, from what was seen of jobs alike."""

from collections.abc import Sequence
from dataclasses import dataclass, field

LENGTHS_MAX = 16  # kept of one size, the newest
SIZES_MAX = 64
SERIAL = 0.1  # share that more devices do not speed up, where only one size was seen


@dataclass(slots=True)
class Lengths:
    """Seconds for all of it by size, the newest last."""

    by_size: dict[int, list[float]] = field(default_factory=dict)

    def add(self, size: int, length_s: float) -> None:
        """A whole job took that long at that size, or would have."""
        known = self.by_size.pop(size, [])
        self.by_size[size] = [*known, length_s][-LENGTHS_MAX:]
        while len(self.by_size) > SIZES_MAX:
            del self.by_size[next(iter(self.by_size))]

    def curve(self) -> tuple[tuple[int, float], ...]:
        """Median seconds by ascending size."""
        return tuple((size, median(self.by_size[size])) for size in sorted(self.by_size))

    def length_s(self, size: int) -> float:
        """Seconds at that size: measured, or from the nearest that was."""
        curve = self.curve()
        near, length_s = min(curve, key=lambda point: (abs(point[0] - size), point[0]))
        return length_s if near == size else length_s * _share(size) / _share(near)


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2.0


def _share(size: int) -> float:
    return (1.0 - SERIAL) / size + SERIAL
