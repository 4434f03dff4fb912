"""Errors in what is believed: of speeds, by a constant factor for each job, and of lengths."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from hashlib import blake2b
from math import cos, exp, log, pi, sqrt

from treadle.core.allocation import Allocation
from treadle.core.job import JobId, JobSpec
from treadle.core.ports import InterleavingModel

_EXPONENT_MAX = 20.0  # whatever the spread, nothing is misjudged by more than this power of e


def log_normal(spread: float, *, seed: int, name: str) -> float:
    """A factor that is as often above 1 as below, by the seed and the name alone.

    Two of three lie between e^-spread and e^spread.
    """
    # A hash and not a generator: the draw must not depend on who asks first.
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    first = (int.from_bytes(digest[:8], "big") + 1) / 2**64
    second = int.from_bytes(digest[8:], "big") / 2**64
    exponent = spread * sqrt(-2.0 * log(first)) * cos(2.0 * pi * second)
    return exp(max(-_EXPONENT_MAX, min(exponent, _EXPONENT_MAX)))


def misjudged(spec: JobSpec, *, spread: float, seed: int) -> JobSpec:
    """The job as somebody describes it who is wrong about its length."""
    error = log_normal(spread, seed=seed, name=f"{spec.id}/length")
    return replace(spec, iterations=spec.iterations * error, estimate_s=spec.estimate_s * error)


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

    def basis(self, spec: JobSpec) -> JobId:
        """Jobs of one profile are misjudged each in its own way."""
        return spec.id

    def _error(self, spec: JobSpec) -> float:
        return log_normal(self._spread, seed=self._seed, name=spec.id)
