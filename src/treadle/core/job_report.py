"""What a running job says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from treadle.core.job import JobId

# The stages of a step, as what takes most of it.
STAGES = {
    "load": "loading data",
    "prepare": "preparing data",
    "compute": "computing",
    "sync": "the network",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Progress that a running job reports."""

    step: float
    total: float | None = None
    loss: float | None = None
    checkpoint: float | None = None  # the step of the newest checkpoint
    # Seconds of a step: in `load`, `prepare`, `compute`, `sync`, of all of it (`step`), waiting for
    # `turns` of a shared device. None: as before; empty: not known any more.
    stages: dict[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """A report that an engine took from a job which cannot reach the controller."""

    job: JobId
    token: str = field(repr=False)  # that was shown with it, and which the controller checks
    report: Report
    at: float  # when it was taken, by the run's own clock


def bottleneck(stages: Mapping[str, float]) -> str:
    """The stage that takes most of a step; empty if none is known."""
    known = {name: stages[name] for name in STAGES if stages.get(name, 0.0) > 0}
    return max(known, key=lambda name: known[name]) if known else ""
