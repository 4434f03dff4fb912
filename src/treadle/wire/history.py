"""What was measured of a job over time, as users see it."""

from dataclasses import dataclass, field

from treadle.wire.jobs import described


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadView:
    """What an attempt used, all its ranks together. None: not measured."""

    busy: float | None = None  # share of time in which its devices worked, 0 to 1
    memory_busy: float | None = None  # share of time in which device memory was read or written
    active: float | None = None  # share of the device's multiprocessors that worked
    bandwidth: float | None = None  # share of the device memory's bandwidth that was used
    device_memory_gib: float | None = None  # of the device that has most of it
    power_w: float | None = None  # of its devices
    cores: float | None = None
    memory_gib: float | None = None  # of the host, resident
    read_mb_s: float | None = None  # from storage
    written_mb_s: float | None = None
    network_mb_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """A span of time: means and maxima of what was measured in it."""

    at: float  # seconds since 1970, of its begin
    span_s: float
    mean: LoadView
    most: LoadView
    alone: bool = True  # no other job was on its devices


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptHistory:
    """One attempt: older points are coarser, and their number is bounded."""

    attempt: int
    points: tuple[HistoryPoint, ...]
    mean: LoadView  # over all points
    most: LoadView
    energy_j: float | None = None  # power over time; None if it was not measured
    first_step_s: float | None = None  # from its launch, while it runs; None: not seen


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPoint:
    """What a job said at a moment, or is known to have done."""

    at: float  # seconds since 1970
    step: float
    per_s: float | None = None  # steps a second; None: not measured
    loss: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    id: str
    attempts: tuple[AttemptHistory, ...]
    progress: tuple[ProgressPoint, ...] = described((), "What it said of its steps, over time.")
    stages: dict[str, float] = field(default_factory=dict)  # seconds of a step, as in Report
    bottleneck: str = described("", "What limits its speed, with the evidence; empty: not known.")
    observed_per_s: float | None = described(None, "Steps a second that it does now, or did last.")
    observed_size: int = described(0, "Devices that it has, or had last.")
    predicted_per_s: float | None = described(
        None,
        "Steps a second alone that earlier runs of its kind let expect when it first started, "
        "before it had done any itself; None: there were none.",
    )
    predicted_size: int = described(0, "Of how many devices that was expected.")
