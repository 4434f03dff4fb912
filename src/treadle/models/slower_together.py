"""Sharing that is worse than believed: the truth of a run in which policies are too hopeful."""

from collections.abc import Sequence

from treadle.core.allocation import Allocation
from treadle.core.job import JobSpec
from treadle.core.ports import PerformanceModel


class SlowerTogether:
    """Another model in which jobs that share devices run at a factor of their speed."""

    def __init__(self, model: PerformanceModel, factor: float) -> None:
        assert 0 < factor <= 1, f"a factor is above 0 and up to 1, not {factor}"
        self._model = model
        self._factor = factor

    def alone(self, spec: JobSpec, size: int) -> float:
        return self._model.alone(spec, size)

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        speed = self._model.iterations_per_s(spec, allocation, ring)
        return speed * self._factor if ring else speed
