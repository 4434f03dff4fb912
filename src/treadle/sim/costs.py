"""Restart costs: seconds in which a job holds devices and makes no progress.

Charged when a job's allocation changes after its first start: a trace's durations already include
the first start.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from treadle.core.job import JobSpec


class RestartCost(Protocol):
    def seconds(self, spec: JobSpec, size: int) -> float: ...


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every job; 0 for none."""

    restart_s: float = 0.0

    def seconds(self, spec: JobSpec, size: int) -> float:  # noqa: ARG002
        return self.restart_s


class AsProfiled:
    """The restart time in the job's own profile, at any size."""

    def seconds(self, spec: JobSpec, size: int) -> float:  # noqa: ARG002
        return spec.profile.restart_s


@dataclass(frozen=True, slots=True)
class ByModel:
    """By the job's model and size; between two sizes of the table, that of the larger one."""

    table: Mapping[str, Mapping[int, float]]  # model -> size -> seconds
    default_s: float = 10.0
    _known: dict[tuple[str, int], float] = field(default_factory=dict)

    def seconds(self, spec: JobSpec, size: int) -> float:
        key = (spec.profile.model, size)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._look_up(*key)
        return known

    def _look_up(self, model: str, size: int) -> float:
        row = self.table.get(model)
        if row is None:
            return self.default_s
        sizes = sorted(row)
        return row[next((known for known in sizes if known >= size), sizes[-1])]


def _row(*seconds: float) -> dict[int, float]:
    return dict(zip((1, 2, 4, 8, 16, 32), seconds, strict=True))


# Start-up seconds on V100s by model and size, as measured by the authors of Muri (Zhao et al.,
# SIGCOMM'22, artifact); models they did not measure get their default of 10 s.
MEASURED = ByModel(
    {
        "vgg16": _row(7, 7, 8, 9, 9, 10),
        "vgg19": _row(7, 7, 8, 9, 10, 10),
        "resnet18": _row(4, 5, 5, 7, 7, 7),
        "shufflenet_v2_x1_0": _row(4, 4, 5, 5, 7, 8),
        "bert": _row(10, 10, 10, 10, 10, 10),
        "gpt2": _row(10, 10, 10, 10, 10, 10),
        "a2c": _row(38, 39, 39, 46, 46, 46),
        "dqn": _row(5, 5, 6, 6, 8, 8),
    }
)
