"""How device time was used, by how many devices a job held and over how many nodes.

Progress is the work done, over what the same device time could have done alone on one node at the
measured size. Crossing nodes, sharing, restarts and lost work make it less than 1. It does not say
how busy the devices were; their counters are not recorded.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.core.job import JobId
from treadle.reports.gantt_rows import device_s
from treadle.reports.metrics import SIZE_BUCKETS, Summary, size_bucket
from treadle.reports.run_history import Hold, JobHistory
from treadle.study.record import NOWHERE, Record

SPREADS = ("1", "2", "3-4", "5-8", ">8")
UNKNOWN = "not recorded"


@dataclass(frozen=True, slots=True)
class Use:
    """The holds of one size on one number of nodes."""

    size: str
    nodes: str
    holds: int
    gpu_h: float
    share: float  # of all device time held
    progress: float | None


@dataclass(frozen=True, slots=True)
class Usage:
    """Device time, as a whole and in parts."""

    in_use: float | None  # share of the cluster's device time with a job on it
    progress: float | None  # of the device time held
    gpu_h: float  # held
    by_size: tuple[Use, ...]  # `nodes` is empty in these
    by_spread: tuple[Use, ...]


def usage(record: Record, summary: Summary) -> Usage:
    histories = record.recorder.histories
    parts: defaultdict[tuple[str, str], _Sum] = defaultdict(_Sum)
    sizes: defaultdict[str, _Sum] = defaultdict(_Sum)
    whole = _Sum()
    for hold in record.recorder.holds:
        size = size_bucket(hold.allocation.size)
        nodes = _spread(hold.allocation.nodes())
        for part in (whole, sizes[size], parts[size, nodes]):
            part.add(hold, histories)
    return Usage(
        in_use=_in_use(record, summary) if record.has_cluster else None,
        progress=whole.progress if record.has_progress else None,
        gpu_h=whole.held_s / 3600.0,
        by_size=tuple(
            _use(record, sizes[size], size, "", whole) for size in SIZE_BUCKETS if size in sizes
        ),
        by_spread=tuple(
            _use(record, parts[size, nodes], size, nodes, whole)
            for size in SIZE_BUCKETS
            for nodes in (*SPREADS, UNKNOWN)
            if (size, nodes) in parts
        ),
    )


def _in_use(record: Record, summary: Summary) -> float | None:
    """The share of device time with a job on it, of the devices that there were at each moment."""
    if len(record.capacity) < 2:
        return summary.utilization
    series = record.recorder.series
    begin_at, end_at = series.at[0], series.at[-1]
    busy_s = sum(
        busy * (until - at)
        for at, until, busy in zip(series.at, series.at[1:], series.busy, strict=False)
    )
    ends = [*(at for at, _ in record.capacity[1:]), end_at]
    had_s = sum(
        devices * max(0.0, min(until, end_at) - max(at, begin_at))
        for (at, devices), until in zip(record.capacity, ends, strict=True)
    )
    # Devices that a job still holds while its node leaves are in use and not there.
    return min(1.0, busy_s / had_s) if had_s else None


class _Sum:
    """Adds holds up."""

    def __init__(self) -> None:
        self.holds = 0
        self.held_s = 0.0
        self.useful_s = 0.0

    def add(self, hold: Hold, histories: Mapping[JobId, JobHistory]) -> None:
        profile = histories[hold.job].spec.profile
        self.holds += 1
        self.held_s += device_s(hold)
        self.useful_s += hold.iterations * profile.iteration_s * profile.size

    @property
    def progress(self) -> float | None:
        return self.useful_s / self.held_s if self.held_s else None


def _use(record: Record, part: _Sum, size: str, nodes: str, whole: _Sum) -> Use:
    share = part.held_s / whole.held_s if whole.held_s else 0.0
    progress = part.progress if record.has_progress else None
    return Use(size, nodes, part.holds, part.held_s / 3600.0, share, progress)


def _spread(nodes: Sequence[str]) -> str:
    if NOWHERE in nodes:
        return UNKNOWN
    count = len(nodes)
    if count <= 2:
        return str(count)
    return "3-4" if count <= 4 else "5-8" if count <= 8 else ">8"
