"""Statistics of a workload: counts, sizes, durations, load, tenants, statuses, bursts, plots."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import log10

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.core.wording import duration
from treadle.models.scaling import ScalingModel
from treadle.traces.calibration import BURST_GAP_S
from treadle.traces.workload import Workload

_TENANTS_SHOWN = 10
_SIZES_SHOWN = 20
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_PLOT_COLUMNS = 60
_BLOCKS = " ▁▂▃▄▅▆▇█"
_LARGE_BURST = 10


@dataclass(frozen=True, slots=True)
class SizeRow:
    """The jobs of one size."""

    size: int
    jobs: int
    device_hours: float


@dataclass(frozen=True, slots=True)
class Bursts:
    """Runs of jobs of one tenant, or of one without tenants, at most a minute apart."""

    count: int
    jobs_mean: float
    jobs_max: int
    share_in_large: float  # of the jobs, in bursts of ten or more


@dataclass(frozen=True, slots=True)
class Description:
    """A workload in figures."""

    name: str
    format: str
    jobs: int
    first_submit_s: float
    last_submit_s: float
    device_hours: float
    devices: int | None  # of the cluster given, if any
    load: float | None  # work over what the devices could do between first and last submission
    larger_than_cluster: int
    sizes: tuple[SizeRow, ...]
    duration_s: dict[str, float]  # "p50" -> seconds at the asked size
    tenants: dict[str, int]  # the ten with most jobs
    tenant_count: int
    statuses: dict[str, int]
    bursts: Bursts
    arrivals: tuple[int, ...]  # jobs in equal parts of the span
    durations: tuple[int, ...]  # jobs in equal parts of the logarithm of their duration
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """The same for JSON."""
        return asdict(self)

    def text(self) -> str:
        """The description as readable text."""
        return "\n".join(_text(self))


def describe(workload: Workload, cluster: Cluster | None = None) -> Description:
    """Describe a workload, and its load on a cluster if one is given."""
    jobs = workload.jobs
    assert jobs, "a workload has at least one job"
    model = ScalingModel()
    lasts_s = [job.iterations / model.alone(job, job.asked) for job in jobs]
    sizes = _sizes(jobs, lasts_s)
    first, last = jobs[0].submit_at, jobs[-1].submit_at
    device_hours = sum(row.device_hours for row in sizes)
    devices = cluster.device_count if cluster else None
    load = device_hours * 3600 / (devices * (last - first)) if devices and last > first else None
    tenants = Counter(job.tenant for job in jobs if job.tenant)
    ordered = sorted(lasts_s)
    return Description(
        name=workload.name,
        format=workload.format,
        jobs=len(jobs),
        first_submit_s=first,
        last_submit_s=last,
        device_hours=device_hours,
        devices=devices,
        load=load,
        larger_than_cluster=sum(row.jobs for row in sizes if devices and row.size > devices),
        sizes=sizes,
        duration_s={f"p{round(100 * share)}": _at(ordered, share) for share in _SHARES}
        | {"mean": sum(ordered) / len(ordered), "max": ordered[-1]},
        tenants=dict(tenants.most_common(_TENANTS_SHOWN)),
        tenant_count=len(tenants),
        statuses=dict(Counter(workload.statuses.values()).most_common()),
        bursts=_bursts(jobs),
        arrivals=_histogram([job.submit_at for job in jobs]),
        durations=_histogram([log10(seconds) for seconds in lasts_s]),
        notes=workload.notes,
    )


def _sizes(jobs: Sequence[JobSpec], lasts_s: Sequence[float]) -> tuple[SizeRow, ...]:
    counts: Counter[int] = Counter()
    hours: dict[int, float] = {}
    for job, seconds in zip(jobs, lasts_s, strict=True):
        counts[job.asked] += 1
        hours[job.asked] = hours.get(job.asked, 0.0) + job.asked * seconds / 3600
    return tuple(SizeRow(size, counts[size], hours[size]) for size in sorted(counts))


def _bursts(jobs: Sequence[JobSpec]) -> Bursts:
    newest: dict[str, tuple[float, int]] = {}  # tenant -> (its last submission, its burst)
    counts: list[int] = []
    for job in jobs:
        at, burst = newest.get(job.tenant, (0.0, -1))
        if burst < 0 or job.submit_at - at > BURST_GAP_S:
            burst = len(counts)
            counts.append(0)
        counts[burst] += 1
        newest[job.tenant] = job.submit_at, burst
    large = sum(count for count in counts if count >= _LARGE_BURST)
    return Bursts(len(counts), len(jobs) / len(counts), max(counts), large / len(jobs))


def _at(ordered: Sequence[float], share: float) -> float:
    """The value at a share of ordered values, between two of them in a straight line."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _histogram(values: Sequence[float]) -> tuple[int, ...]:
    low, high = min(values), max(values)
    counts = [0] * _PLOT_COLUMNS
    for value in values:
        part = (value - low) / (high - low) if high > low else 0.0
        counts[min(_PLOT_COLUMNS - 1, int(part * _PLOT_COLUMNS))] += 1
    return tuple(counts)


def plot(counts: Sequence[int]) -> str:
    """A row of block characters scaled to the maximum; any count above 0 is visible."""
    most = max(counts)
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[-(-count * steps // most)] for count in counts)


def _text(shown: Description) -> Iterator[str]:
    span_s = shown.last_submit_s - shown.first_submit_s
    yield f"{shown.name}: {shown.jobs:,} jobs ({shown.format or 'no format'})"
    yield f"  submitted  over {duration(span_s)}, from second {shown.first_submit_s:,.0f}"
    yield f"  work       {shown.device_hours:,.1f} device-hours"
    if shown.load is not None:
        yield f"  load       {shown.load:.3f} of {shown.devices:,} devices"
    if shown.larger_than_cluster:
        yield f"  too large  {shown.larger_than_cluster:,} jobs ask for more than the cluster has"
    lasts = ", ".join(f"{name} {duration(value)}" for name, value in shown.duration_s.items())
    yield f"  durations  {lasts}"
    bursts = shown.bursts
    yield (
        f"  bursts     {bursts.count:,} of {bursts.jobs_mean:.1f} jobs on average, "
        f"{bursts.jobs_max:,} at most; {bursts.share_in_large:.0%} of the jobs in bursts of "
        f"{_LARGE_BURST} or more"
    )
    yield ""
    yield from _size_table(shown)
    yield from _count_table("tenant", shown.tenants, more=shown.tenant_count - len(shown.tenants))
    yield from _count_table("ended", shown.statuses)
    yield ""
    column_s = span_s / _PLOT_COLUMNS
    yield f"  arrivals   |{plot(shown.arrivals)}|"
    yield f"             a column is {duration(column_s)}, at most {max(shown.arrivals):,} jobs"
    yield f"  durations  |{plot(shown.durations)}|"
    yield f"             from the shortest to {duration(shown.duration_s['max'])}, logarithmic"
    if shown.notes:
        yield ""
        yield from (f"  note: {note}" for note in shown.notes)


def _count_table(title: str, counts: dict[str, int], *, more: int = 0) -> Iterator[str]:
    if counts:
        yield ""
        yield f"  {title:<14} jobs"
        yield from (f"  {name:<14} {count:,}" for name, count in counts.items())
    if more:
        yield f"  and {more} more"


def _size_table(shown: Description) -> Iterator[str]:
    yield "  size     jobs   share    work"
    for row in shown.sizes[:_SIZES_SHOWN]:
        work = row.device_hours / shown.device_hours
        yield f"  {row.size:>4} {row.jobs:>8,} {row.jobs / shown.jobs:>7.1%} {work:>7.1%}"
    if len(shown.sizes) > _SIZES_SHOWN:
        yield f"  and {len(shown.sizes) - _SIZES_SHOWN} more sizes"
