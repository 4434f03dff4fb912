"""Errors in beliefs: a constant factor on each job's speed, and on its length."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from math import cos, exp, log, pi, sqrt

from treadle.core.allocation import Allocation
from treadle.core.job import JobId, JobSpec
from treadle.core.ports import InterleavingModel
from treadle.models.model_wrapper import ModelWrapper

_EXPONENT_MAX = 20.0  # no error is larger than this power of e, whatever the spread


def log_normal(spread: float, *, seed: int, name: str) -> float:
    """A log-normal factor with median 1 that depends on the seed and the name alone.

    Two of three lie between e^-spread and e^spread.
    """
    # A hash and not a generator: the draw must not depend on the order of calls.
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    first = (int.from_bytes(digest[:8], "big") + 1) / 2**64
    second = int.from_bytes(digest[8:], "big") / 2**64
    exponent = spread * sqrt(-2.0 * log(first)) * cos(2.0 * pi * second)
    return exp(max(-_EXPONENT_MAX, min(exponent, _EXPONENT_MAX)))


def misjudged(spec: JobSpec, *, spread: float, seed: int) -> JobSpec:
    """The job with an error in its length."""
    error = log_normal(spread, seed=seed, name=f"{spec.id}/length")
    return replace(spec, iterations=spec.iterations * error, estimate_s=spec.estimate_s * error)


class Noisy(ModelWrapper):
    """Another model with a log-normal error, drawn once for each job id and seed."""

    def __init__(self, model: InterleavingModel, *, spread: float, seed: int) -> None:
        super().__init__(model)
        self._spread = spread
        self._seed = seed

    def alone(self, spec: JobSpec, size: int) -> float:
        return self._model.alone(spec, size) * self._error(spec)

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        return self._model.iterations_per_s(spec, allocation, ring) * self._error(spec)

    def together(self, specs: Sequence[JobSpec]) -> tuple[float, ...]:
        speeds = self._model.together(specs)
        return tuple(s * self._error(spec) for s, spec in zip(speeds, specs, strict=True))

    def basis(self, spec: JobSpec) -> JobId:
        """Each job has its own error, also among jobs of one profile."""
        return spec.id

    def _error(self, spec: JobSpec) -> float:
        return log_normal(self._spread, seed=self._seed, name=spec.id)
