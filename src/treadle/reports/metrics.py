"""The metrics of a run, by which policies are compared.

Every mean and percentile is over finished jobs. If no job finished, it is None, never a zero that
looks like a result. Seconds are trace seconds.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import floor
from operator import attrgetter, mul, sub

from treadle.core.job import JobId
from treadle.reports.bookkeeping import WAIT_CAUSES
from treadle.reports.json_numbers import finite
from treadle.reports.recorder import Recorder
from treadle.reports.run_history import JobHistory

SIZE_BUCKETS = ("1", "2-4", "5-8", ">8")
_TENANTS_MAX = 20
_COUNTED = ("preemptions", "pauses", "interruptions", "resizes", "moves", "failures")
_FAIR = 1.0 + 1e-9  # rounding alone does not make a job unfairly treated


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run in numbers. The field names are the keys of the JSON object."""

    policy: str
    devices: int
    jobs: int
    finished: int
    failed: int
    cancelled: int
    never_fit: int  # jobs that never ran because even the empty cluster is too small
    unfinished: int  # still waiting or running when the record ended, never_fit not counted
    jct_mean_s: float | None
    jct_p50_s: float | None
    jct_p90_s: float | None
    jct_p99_s: float | None
    queue_mean_s: float | None  # waiting before the first start and after it
    queue_p50_s: float | None
    queue_p90_s: float | None
    queue_p99_s: float | None
    wait_causes: Mapping[str, float] | None  # shares that add up to 1
    wait_causes_by_size: Mapping[str, Mapping[str, float] | None]
    makespan_s: float | None  # first submission to last finish
    end_s: float | None  # last finish on the trace's clock
    utilization: float | None  # share of device time with a job on it
    efficiency: float | None  # share of device time turned into progress that was kept
    queue_length_mean: float | None
    queue_length_max: float | None
    blocking_index: float | None
    fairness_mean: float | None
    fairness_p99: float | None
    fairness_max: float | None
    unfair_share: float | None  # of finished jobs, with a finish-time fairness above 1
    preemptions: int
    pauses: int
    interruptions: int
    resizes: int
    moves: int
    restarts: int  # starts beyond the first
    failures: int
    lost_gpu_h: float
    decisions: int
    decide_cpu_s: float

    def as_dict(self) -> dict[str, object]:
        """The JSON object; a number that is not finite becomes null."""
        return {field.name: finite(getattr(self, field.name)) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class Group:
    """The jobs of one size bucket or one tenant."""

    name: str
    jobs: int
    finished: int
    jct_mean_s: float | None
    jct_p50_s: float | None
    jct_p99_s: float | None
    queue_mean_s: float | None
    gpu_h: float


def summarise(
    recorder: Recorder,
    *,
    policy: str,
    devices: int,
    decisions: int,
    decide_cpu_s: float,
    never_fit: Mapping[JobId, str],
) -> Summary:
    """The metrics of one run; `never_fit`: jobs that the cluster cannot hold."""
    histories = recorder.histories
    finished = [history for history in histories.values() if history.status == "finished"]
    aside = never_started(recorder, never_fit)
    left_out = {history.spec.id for history in aside}
    queued = [history for identity, history in histories.items() if identity not in left_out]
    statuses = Counter(map(attrgetter("status"), queued))
    ended = {name: statuses[name] for name in ("failed", "cancelled")}
    fairness = sorted(finish_time_fairness(history, devices) for history in finished)
    jct_s = sorted(map(_jct_s, finished))
    queue_s = sorted(map(attrgetter("waited_s"), finished))
    causes, causes_by_size = _wait_causes(recorder, aside)
    first_at = min(map(attrgetter("submitted_at"), histories.values()), default=None)
    end_at = max(map(_ended_at, finished), default=None)
    starts = list(map(attrgetter("starts"), histories.values()))
    usage = _usage(recorder, aside, devices=devices, first_at=first_at, end_at=end_at)
    return Summary(
        policy=policy,
        devices=devices,
        jobs=len(histories),
        finished=len(finished),
        **ended,
        never_fit=len(aside),
        unfinished=len(queued) - len(finished) - sum(ended.values()),
        jct_mean_s=mean(jct_s),
        jct_p50_s=percentile(jct_s, 50),
        jct_p90_s=percentile(jct_s, 90),
        jct_p99_s=percentile(jct_s, 99),
        queue_mean_s=mean(queue_s),
        queue_p50_s=percentile(queue_s, 50),
        queue_p90_s=percentile(queue_s, 90),
        queue_p99_s=percentile(queue_s, 99),
        wait_causes=causes,
        wait_causes_by_size=causes_by_size,
        makespan_s=None if end_at is None or first_at is None else end_at - first_at,
        end_s=end_at,
        utilization=usage.utilization,
        efficiency=usage.efficiency,
        queue_length_mean=usage.queue_length_mean,
        queue_length_max=usage.queue_length_max,
        blocking_index=_ratio(_sum(queued, "blocking"), _sum(queued, "waited_s")),
        fairness_mean=mean(fairness),
        fairness_p99=percentile(fairness, 99),
        fairness_max=fairness[-1] if fairness else None,
        unfair_share=_ratio(sum(1 for rho in fairness if rho > _FAIR), len(fairness)),
        restarts=sum(starts) - len(starts) + starts.count(0),
        **_counts(histories.values()),
        lost_gpu_h=_sum(histories.values(), "lost_s") / 3600.0,
        decisions=decisions,
        decide_cpu_s=decide_cpu_s,
    )


def never_started(recorder: Recorder, never_fit: Iterable[JobId]) -> list[JobHistory]:
    """The jobs of `never_fit` that never ran.

    A job that ran until its node was lost counts as unfinished instead.
    """
    found = (recorder.histories.get(identity) for identity in never_fit)
    return [history for history in found if history is not None and not history.starts]


def by_size(recorder: Recorder) -> list[Group]:
    """One group for each size bucket that has jobs, small to large."""
    members = _grouped(recorder, lambda history: size_bucket(history.spec.asked))
    return [_group(name, members[name]) for name in SIZE_BUCKETS if name in members]


def by_tenant(recorder: Recorder, *, groups_max: int = _TENANTS_MAX) -> list[Group]:
    """One group for each tenant, the largest first; the smallest tenants share one group."""
    return by_tenants(recorder, largest_tenants(recorder, groups_max=groups_max))


def by_tenants(recorder: Recorder, names: Sequence[str]) -> list[Group]:
    """One group for each of these tenants, in their order, and one for all others."""
    members = _grouped(recorder, _tenant)
    others = [name for name in members if name not in names]
    groups = [_group(name, members[name]) for name in names if name in members]
    if others:
        rest = [history for name in others for history in members[name]]
        groups.append(_group(f"({len(others)} other tenants)", rest))
    return groups


def largest_tenants(recorder: Recorder, *, groups_max: int = _TENANTS_MAX) -> list[str]:
    """The tenants with the most device time, so that with one group for the rest there are
    `groups_max` groups."""
    members = _grouped(recorder, _tenant)
    names = sorted(members, key=lambda name: (-_sum(members[name], "service_s"), name))
    return names if len(names) <= groups_max else names[: groups_max - 1]


def size_bucket(size: int) -> str:
    """The bucket of a job size; the bounds are those of the Philly study."""
    if size <= 1:
        return "1"
    if size <= 4:
        return "2-4"
    return "5-8" if size <= 8 else ">8"


def finish_time_fairness(history: JobHistory, devices: int) -> float:
    """Completion time over the time that the job would take on an equal share of the cluster.

    The share is the devices over the mean number of unfinished jobs during its life. On the share
    the job takes its running time, stretched if the share is less than what it asked for. Above 1
    the job would have been better off with the share.
    """
    jct_s = _jct_s(history)
    spec = history.spec
    if jct_s <= 0.0:
        return 0.0
    neighbours = max(history.contention / jct_s, 1.0)
    stretch = min(1.0, devices / neighbours / spec.asked)
    return jct_s * stretch / (spec.iterations * spec.profile.iteration_s)


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Of ascending values, with linear interpolation, as numpy does by default."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * percent / 100.0
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def queue_lengths(recorder: Recorder, aside: Iterable[JobHistory]) -> Sequence[float]:
    """Waiting jobs after each moment, without jobs that can never fit."""
    since = sorted(history.submitted_at for history in aside)
    series = recorder.series
    if not since:
        return series.waiting
    return [
        max(waiting - bisect_right(since, at), 0.0)
        for at, waiting in zip(series.at, series.waiting, strict=True)
    ]


# -- over time ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Usage:
    utilization: float | None = None
    efficiency: float | None = None
    queue_length_mean: float | None = None
    queue_length_max: float | None = None


def _usage(
    recorder: Recorder,
    aside: Sequence[JobHistory],
    *,
    devices: int,
    first_at: float | None,
    end_at: float | None,
) -> _Usage:
    """Integrals of the series from the first submission to the last finish."""
    if first_at is None or end_at is None or end_at <= first_at or not devices:
        return _Usage()
    series = recorder.series
    waiting = queue_lengths(recorder, aside)
    # Whole columns at a time, in C: this runs at the end of every simulation.
    count = bisect_left(series.at, end_at)
    bounds = [*series.at[:count], end_at]
    lasted_s = list(map(sub, bounds[1:], bounds))
    busy_s = sum(map(mul, lasted_s, series.busy))
    useful_s = sum(map(mul, lasted_s, series.useful))
    redone_s = sum(device_s for at, device_s in recorder.thrown_back if at <= end_at)
    waiting_s = sum(map(mul, lasted_s, waiting))
    longest = max(waiting[:count], default=0.0)
    makespan_s = end_at - first_at
    whole_s = devices * makespan_s
    return _Usage(
        utilization=busy_s / whole_s,
        # Devices were busy and nothing was useful: the recorder had no speed-ups.
        efficiency=(useful_s - redone_s) / whole_s if useful_s or not busy_s else None,
        queue_length_mean=waiting_s / makespan_s,
        queue_length_max=longest,
    )


def _wait_causes(
    recorder: Recorder, aside: Sequence[JobHistory]
) -> tuple[Mapping[str, float] | None, Mapping[str, Mapping[str, float] | None]]:
    """Shares of waiting seconds by cause: of all jobs, and within each size bucket."""
    buckets = waited_by_cause(recorder, aside)
    total = {cause: sum(bucket[cause] for bucket in buckets.values()) for cause in WAIT_CAUSES}
    return _shares(total), {name: _shares(bucket) for name, bucket in buckets.items()}


def waited_by_cause(recorder: Recorder, aside: Iterable[JobHistory]) -> dict[str, dict[str, float]]:
    """Seconds waited in each size bucket by cause, without the jobs in `aside`."""
    seconds = dict(recorder.wait_s)
    for history in aside:
        # A job too large for the cluster waits for devices, but is not in the queue.
        key = ("devices", history.spec.asked)
        seconds[key] = max(seconds.get(key, 0.0) - history.waited_s, 0.0)
    buckets = {name: dict.fromkeys(WAIT_CAUSES, 0.0) for name in SIZE_BUCKETS}
    for (cause, size), waited_s in seconds.items():
        buckets[size_bucket(size)][cause] += waited_s
    return buckets


def _shares(parts: Mapping[str, float]) -> Mapping[str, float] | None:
    whole = sum(parts.values())
    return {name: part / whole for name, part in parts.items()} if whole > 0.0 else None


# -- over jobs ----------------------------------------------------------------------------------


def _grouped(recorder: Recorder, name: Callable[[JobHistory], str]) -> dict[str, list[JobHistory]]:
    members: dict[str, list[JobHistory]] = {}
    for history in recorder.histories.values():
        members.setdefault(name(history), []).append(history)
    return members


def _tenant(history: JobHistory) -> str:
    return history.spec.tenant or "(no tenant)"


def _group(name: str, histories: Sequence[JobHistory]) -> Group:
    finished = [history for history in histories if history.status == "finished"]
    jct_s = sorted(map(_jct_s, finished))
    return Group(
        name=name,
        jobs=len(histories),
        finished=len(finished),
        jct_mean_s=mean(jct_s),
        jct_p50_s=percentile(jct_s, 50),
        jct_p99_s=percentile(jct_s, 99),
        queue_mean_s=mean([history.waited_s for history in finished]),
        gpu_h=_sum(histories, "service_s") / 3600.0,
    )


def _jct_s(history: JobHistory) -> float:
    return _ended_at(history) - history.submitted_at


def _ended_at(history: JobHistory) -> float:
    assert history.ended_at is not None, f"job {history.spec.id} is {history.status} and has no end"
    return history.ended_at


def _counts(histories: Iterable[JobHistory]) -> dict[str, int]:
    """Sums of these columns, in one walk: this runs at the end of every simulation."""
    columns = zip(*map(attrgetter(*_COUNTED), histories), strict=True)
    return dict.fromkeys(_COUNTED, 0) | dict(zip(_COUNTED, map(sum, columns), strict=False))


def _sum(histories: Iterable[JobHistory], name: str) -> float:
    return float(sum(map(attrgetter(name), histories)))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
