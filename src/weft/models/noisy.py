"""A belief that is wrong by a constant factor for each job: to study misprediction."""

from collections.abc import Hashable, Sequence
from hashlib import blake2b
from math import cos, exp, log, pi, sqrt

from weft.core.allocation import Allocation
from weft.core.job import JobSpec
from weft.core.ports import InterleavingModel


class Noisy:
    """Another model seen through a log-normal error, drawn once for each job id and seed."""

    def __init__(self, model: InterleavingModel, *, spread: float, seed: int) -> None:
        self._model = model
        self._spread = spread
        self._seed = seed

    def alone(self, spec: JobSpec, size: int) -> float:
        return self._model.alone(spec, size) * self._error(spec)

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        return self._model.iterations_per_s(spec, allocation, ring) * self._error(spec)

    def kind(self, spec: JobSpec) -> Hashable:
        return self._model.kind(spec)

    def together(self, specs: Sequence[JobSpec]) -> tuple[float, ...]:
        speeds = self._model.together(specs)
        return tuple(s * self._error(spec) for s, spec in zip(speeds, specs, strict=True))

    def efficiency(self, specs: Sequence[JobSpec]) -> float:
        return self._model.efficiency(specs)

    def _error(self, spec: JobSpec) -> float:
        # A hash and not a generator: the draw must not depend on who asks first.
        digest = blake2b(f"{self._seed}/{spec.id}".encode(), digest_size=16).digest()
        first = (int.from_bytes(digest[:8], "big") + 1) / 2**64
        second = int.from_bytes(digest[8:], "big") / 2**64
        return exp(self._spread * sqrt(-2.0 * log(first)) * cos(2.0 * pi * second))
