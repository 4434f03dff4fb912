"""A base class for models that wrap another one and change or add some answers."""

from collections.abc import Hashable, Sequence

from treadle.core.allocation import Allocation
from treadle.core.job import JobSpec
from treadle.core.ports import InterleavingModel


class ModelWrapper:
    """Passes every question about speeds to the wrapped model."""

    def __init__(self, model: InterleavingModel) -> None:
        self._model = model

    def alone(self, spec: JobSpec, size: int) -> float:
        return self._model.alone(spec, size)

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        return self._model.iterations_per_s(spec, allocation, ring)

    def kind(self, spec: JobSpec) -> Hashable:
        return self._model.kind(spec)

    def together(self, specs: Sequence[JobSpec]) -> tuple[float, ...]:
        return self._model.together(specs)

    def efficiency(self, specs: Sequence[JobSpec]) -> float:
        return self._model.efficiency(specs)
