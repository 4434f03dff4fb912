"""AntMan's sharing (Xiao et al., OSDI'20), as Muri's authors model it (Zhao et al., SIGCOMM'22).

Sharing does not slow a guaranteed job. An opportunistic job beside it runs its stages one after
another in the gaps that the guaranteed job leaves at each resource: it reads data while the other
computes and synchronises, computes while the other reads and synchronises, and synchronises while
the other reads and computes. So its iteration takes a whole number of iterations of the guaranteed
job, and never less than alone.

Two guaranteed jobs, or two opportunistic ones, take turns on a device; so do two jobs if one leaves
the other no gap. Times alone are multiplied by 1.015, as everywhere in that artifact.
"""

from collections.abc import Sequence
from math import floor

from treadle.core.allocation import Allocation
from treadle.core.job import JobSpec
from treadle.core.ports import PerformanceModel
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.staggered import ALONE, Stages, fused

_REMEMBERED_MAX = 100_000  # pairs


class GapsModel:
    """Guaranteed jobs run at full speed, opportunistic ones in their gaps."""

    def __init__(
        self,
        base: PerformanceModel | None = None,
        *,
        alone: float = ALONE,
        times: StageTimes | None = None,
    ) -> None:
        self._base: PerformanceModel = ScalingModel() if base is None else base
        self._alone = alone
        self._times = StageTimes() if times is None else times
        self._known: dict[tuple[Stages, Stages], int | None] = {}

    def alone(self, spec: JobSpec, size: int) -> float:
        return self._base.alone(spec, size) / self._alone

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        speeds = [
            self._base.iterations_per_s(other, held, ()) / self._alone
            for other, held in [(spec, allocation), *ring]
        ]
        return self._beside(spec, speeds[0], [other for other, _ in ring], speeds[1:])

    def kind(self, spec: JobSpec) -> tuple[bool, float, Stages]:
        return (spec.guaranteed, spec.profile.iteration_s, self._stages(spec))

    def together(self, specs: Sequence[JobSpec]) -> tuple[float, ...]:
        speeds = [self.alone(spec, spec.asked) for spec in specs]
        return tuple(
            self._beside(
                spec,
                speeds[index],
                [*specs[:index], *specs[index + 1 :]],
                [*speeds[:index], *speeds[index + 1 :]],
            )
            for index, spec in enumerate(specs)
        )

    def efficiency(self, specs: Sequence[JobSpec]) -> float:
        """The group's total progress, in units of one job alone."""
        speeds = self.together(specs)
        return sum(
            speed / self.alone(spec, spec.asked) for spec, speed in zip(specs, speeds, strict=True)
        )

    def _beside(
        self, spec: JobSpec, speed: float, others: Sequence[JobSpec], speeds: Sequence[float]
    ) -> float:
        """A job's speed beside others, given the speed of each alone."""
        rivals = sum(other.guaranteed == spec.guaranteed for other in others)
        slowest = speed / (1 + rivals)
        if spec.guaranteed:
            return slowest
        for host, host_speed in zip(others, speeds, strict=True):
            if host.guaranteed:
                count = self._iterations(self._stages(spec), self._stages(host))
                if count is None:
                    slowest = min(slowest, speed / 2)
                elif count:
                    slowest = min(slowest, host_speed / count)
        return slowest

    def _stages(self, spec: JobSpec) -> Stages:
        return fused(self._times.of(spec))

    def _iterations(self, guest: Stages, host: Stages) -> int | None:
        if (guest, host) not in self._known:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            self._known[guest, host] = iterations(guest, host)
        return self._known[guest, host]


def iterations(guest: Stages, host: Stages) -> int | None:
    """How many host iterations one guest iteration takes; None if there is no gap for it.

    If a stage ends within a gap, the next stage begins in the rest of that gap.
    """
    data, compute, network = guest
    host_data, host_compute, host_network = host
    gaps = (host_compute + host_network, host_data + host_network, host_data + host_compute)
    if any(stage > 0 and not gap for stage, gap in zip(guest, gaps, strict=True)):
        return None
    count, rest = _divided(data, gaps[0])
    if rest > 0:
        count += 1
        compute -= min(compute, host_network, gaps[0] - rest)
    whole, rest = _divided(compute, gaps[1])
    count += whole
    if rest > 0:
        count += 1
        if rest < host_data:
            network -= min(network, gaps[2] - rest)
    whole, rest = _divided(network, gaps[2])
    return count + whole + (rest > host_data)


def _divided(stage: float, gap: float) -> tuple[int, float]:
    """How many whole gaps a stage fills, and what is left of it."""
    whole = floor(stage / gap) if stage else 0
    return whole, stage - whole * gap
