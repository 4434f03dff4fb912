"""Sharing by one factor: every job that shares loses the same, whatever its bottleneck is."""

from collections.abc import Sequence

from treadle.core.job import JobSpec, Profile
from treadle.core.ports import PerformanceModel
from treadle.models.speeds_together import SpeedsTogether


class FactorModel(SpeedsTogether):
    """Each other job on the same devices costs a job the same factor of its speed."""

    def __init__(self, base: PerformanceModel, factor: float) -> None:
        assert 0 < factor <= 1, f"a factor is above 0 and up to 1, not {factor}"
        super().__init__(base)
        self._factor = factor

    def kind(self, spec: JobSpec) -> Profile:
        return spec.profile

    def relative(self, specs: Sequence[JobSpec]) -> list[float]:
        return [self._factor ** (len(specs) - 1)] * len(specs)
