"""The sizes that a job can use, each faster than the one before."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from treadle.core.job import Job, Profile
from treadle.core.ports import PerformanceModel, Revisable

_REMEMBERED_MAX = 100_000  # ladders


@dataclass(frozen=True, slots=True)
class Ladder:
    """The sizes a job can use, each faster than the one before, and what every step gains."""

    sizes: tuple[int, ...]
    speeds: tuple[float, ...]
    # Gain of the step after holding sizes[r], for each device it takes: relative to the old speed
    # if the job is the shorter of two, relative to the new one if it is the longer.
    gain_if_shorter: tuple[float, ...]
    gain_if_longer: tuple[float, ...]

    @classmethod
    def of(cls, sizes: Sequence[int], speeds: Sequence[float]) -> "Ladder":
        rungs: list[tuple[int, float]] = []
        for size, speed in zip(sizes, speeds, strict=True):
            if speed > 0 and (not rungs or speed > rungs[-1][1]):
                rungs.append((size, speed))  # A size that is no faster than a smaller one is none.
        shorter, longer = [], []
        for (size, speed), (next_size, next_speed) in pairwise(rungs):
            step, gain = next_size - size, next_speed - speed
            shorter.append(gain / (speed * step))
            longer.append(gain / (next_speed * step))
        return cls(
            tuple(size for size, _ in rungs),
            tuple(speed for _, speed in rungs),
            tuple(shorter),
            tuple(longer),
        )


class Ladders:
    """The ladder of each job as a model believes it; jobs alike share one."""

    def __init__(self, belief: PerformanceModel) -> None:
        self._belief = belief
        self._revisable = belief if isinstance(belief, Revisable) else None
        # By the profile's identity; the profile is kept so that its identity stays its own. Where
        # the belief says what it rests on, by that.
        self._known: dict[tuple[Hashable, tuple[int, ...], int], tuple[Profile, Ladder]] = {}

    @property
    def may_change(self) -> bool:
        return self._revisable is not None

    def of(self, job: Job, node: int = 1) -> Ladder:
        """The job's ladder, of counts that tile nodes of that many devices."""
        spec, revisable = job.spec, self._revisable
        basis = id(spec.profile) if revisable is None else revisable.basis(spec)
        key = (basis, spec.sizes, node)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            sizes = spec.sizes if node == 1 else legal(spec.sizes, node)
            speeds = [self._belief.alone(spec, size) for size in sizes]
            known = self._known[key] = (spec.profile, Ladder.of(sizes, speeds))
        return known[1]


def is_legal(count: int, node: int) -> bool:
    """Whether so many devices tile nodes of that many."""
    return count % node == 0 if count >= node else node % count == 0


@cache
def legal(sizes: tuple[int, ...], node: int) -> tuple[int, ...]:
    """The legal ones of a job's sizes; all of them if none is, so that rigid jobs still run."""
    return tuple(size for size in sizes if is_legal(size, node)) or sizes
