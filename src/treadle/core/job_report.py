"""What a running job says of itself."""

from dataclasses import dataclass, field

from treadle.core.job import JobId


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
