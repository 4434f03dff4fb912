"""What every model of sharing derives from one answer: what each job of a group keeps."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from treadle.core.allocation import Allocation
from treadle.core.job import JobSpec, Profile
from treadle.core.ports import PerformanceModel


class SpeedsTogether(ABC):
    """Speeds alone as `base` says; together each job keeps a share of its own.

    The base is never asked about jobs that share: it would charge sharing a second time, and a
    policy that asks for `together` would not see it.
    """

    def __init__(self, base: PerformanceModel) -> None:
        self._base = base

    @abstractmethod
    def relative(self, specs: Sequence[JobSpec]) -> Sequence[float]:
        """The share of its speed alone that each of these jobs keeps."""

    def alone(self, spec: JobSpec, size: int) -> float:
        return self._base.alone(spec, size)

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        speed = self._base.iterations_per_s(spec, allocation, ())
        if not ring:
            return speed
        return speed * self.relative([spec, *(other for other, _ in ring)])[0]

    def together(self, specs: Sequence[JobSpec]) -> tuple[float, ...]:
        return tuple(
            self._base.alone(spec, spec.asked) * share
            for spec, share in zip(specs, self.relative(specs), strict=True)
        )

    def efficiency(self, specs: Sequence[JobSpec]) -> float:
        """The sum of speeds relative to alone; above 1, sharing beats running in sequence."""
        return sum(self.relative(specs))


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


class SlowerTogether:
    """Another model in which jobs that share devices run at a factor of their speed.

    It is the truth of a run in which policies are too hopeful.
    """

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
