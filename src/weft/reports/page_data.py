"""What the page shows, as one JSON value: sampled and packed, so that large runs stay small."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from weft.core.allocation import Allocation
from weft.core.cluster import Cluster, Device
from weft.reports.comparison import Comparison, Run, colour
from weft.reports.metrics import (
    SIZE_BUCKETS,
    by_size,
    by_tenants,
    finish_time_fairness,
    largest_tenants,
    queue_lengths,
    size_bucket,
)
from weft.reports.recorder import WAIT_CAUSES, Hold, Recorder

BINS_MAX = 1500  # points of a curve over time; no screen shows more
POINTS_MAX = 1000  # points of a distribution
HOLDS_MAX = 30_000  # rectangles of one policy's chart of devices


def page_data(comparison: Comparison, *, holds_max: int = HOLDS_MAX) -> dict[str, object]:
    """The value that the page's script reads."""
    from_at, end_at = _span(comparison.runs)
    step_s = (end_at - from_at) / BINS_MAX or 1.0
    jobs = _Jobs()
    tenants = largest_tenants(comparison.runs[0].recorder)
    runs: list[dict[str, object]] = []
    for index, run in enumerate(comparison.runs):
        rows = _Rows(comparison.cluster)
        runs.append(
            {
                "policy": run.policy,
                "colour": colour(index),
                "summary": run.summary.as_dict(),
                "jct": _sampled(_jct_s(run)),
                "fairness": _sampled(_fairness(run)),
                "busy": binned(run.recorder.series.at, run.recorder.series.busy, from_at, step_s),
                "waiting": binned(run.recorder.series.at, _waiting(run), from_at, step_s),
                "sizes": [asdict(group) for group in by_size(run.recorder)],
                "tenants": [asdict(group) for group in by_tenants(run.recorder, tenants)],
                "holds": _packed(run.recorder, rows, jobs, from_at=from_at, holds_max=holds_max),
                "nodes": rows.nodes,
            }
        )
    return {
        "title": comparison.title,
        "command": comparison.command,
        "notes": list(comparison.notes),
        "nodes": len(comparison.cluster.nodes),
        "devices": comparison.cluster.device_count,
        "span_s": end_at - from_at,
        "step_s": step_s,
        "causes": list(WAIT_CAUSES),
        "buckets": list(SIZE_BUCKETS),
        "jobs": jobs.columns(),
        "runs": runs,
    }


def binned(
    at: Sequence[float], values: Sequence[float], from_at: float, step_s: float
) -> list[float]:
    """The time-weighted mean of a staircase in each bin; nothing lasts past the last moment."""
    sums = [0.0] * BINS_MAX
    for index in range(len(at) - 1):
        value = values[index]
        if not value:
            continue
        start, stop = (at[index] - from_at) / step_s, (at[index + 1] - from_at) / step_s
        first, last = min(int(start), BINS_MAX - 1), min(int(stop), BINS_MAX - 1)
        if first == last:
            sums[first] += (stop - start) * value
            continue
        sums[first] += (first + 1 - start) * value
        for middle in range(first + 1, last):
            sums[middle] += value
        sums[last] += (stop - last) * value
    used = int((at[-1] - from_at) / step_s) + 1 if at else 0
    return [_short(total) for total in sums[:used]]


def _span(runs: Iterable[Run]) -> tuple[float, float]:
    """The first submission and the last event of all runs."""
    starts = [s.submitted_at for run in runs for s in run.recorder.stories.values()]
    ends = [run.recorder.series.at[-1] for run in runs if run.recorder.series.at]
    from_at = min(starts, default=0.0)
    return from_at, max([from_at, *ends])


def _waiting(run: Run) -> Sequence[float]:
    stories = run.recorder.stories
    return queue_lengths(run.recorder, [stories[i] for i in run.never_fit if i in stories])


def _jct_s(run: Run) -> list[float]:
    return [
        story.ended_at - story.submitted_at
        for story in run.recorder.stories.values()
        if story.status == "finished" and story.ended_at is not None
    ]


def _fairness(run: Run) -> list[float]:
    return [
        finish_time_fairness(story, run.summary.devices)
        for story in run.recorder.stories.values()
        if story.status == "finished"
    ]


def _sampled(values: Iterable[float]) -> dict[str, object]:
    """Evenly chosen ranks of a distribution, the smallest and the largest among them."""
    ordered = sorted(values)
    count = len(ordered)
    if count > POINTS_MAX:
        ranks = [index * (count - 1) // (POINTS_MAX - 1) for index in range(POINTS_MAX)]
        ordered = [ordered[rank] for rank in ranks]
    return {"count": count, "values": [float(f"{value:.6g}") for value in ordered]}


# -- the chart of devices -----------------------------------------------------------------------


class _Jobs:
    """The jobs that some chart shows, each once, as columns."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._sizes: list[int] = []
        self._tenants: list[int] = []
        self._tenant_index: dict[str, int] = {}

    def index(self, hold: Hold, recorder: Recorder) -> int:
        found = self._index.get(hold.job)
        if found is None:
            spec = recorder.stories[hold.job].spec
            found = self._index[hold.job] = len(self._sizes)
            self._sizes.append(spec.asked)
            tenant = self._tenant_index.setdefault(spec.tenant, len(self._tenant_index))
            self._tenants.append(tenant)
        return found

    def columns(self) -> dict[str, object]:
        return {
            "ids": list(self._index),
            "sizes": self._sizes,
            "buckets": [SIZE_BUCKETS.index(size_bucket(size)) for size in self._sizes],
            "tenants": self._tenants,
            "tenant_names": list(self._tenant_index),
        }


class _Rows:
    """Which row of the chart a device is: nodes in cluster order, late comers at the end."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes: list[tuple[str, int]] = []  # name and device count
        self._first: dict[str, int] = {}
        self._count = 0
        for node in cluster.nodes:
            self._add(node.name, node.device_count)

    def spans(self, allocation: Allocation) -> list[int]:
        """Rows as first, count, first, count, ..."""
        rows = sorted(self._row(device, allocation) for device in allocation.devices)
        spans = [rows[0], 1]
        for row in rows[1:]:
            if row == spans[-2] + spans[-1]:
                spans[-1] += 1
            else:
                spans += [row, 1]
        return spans

    def _row(self, device: Device, allocation: Allocation) -> int:
        if device.node not in self._first:
            numbers = [other.number for other in allocation.devices if other.node == device.node]
            self._add(device.node, max(numbers) + 1)
        return self._first[device.node] + device.number

    def _add(self, name: str, device_count: int) -> None:
        self._first[name] = self._count
        self.nodes.append((name, device_count))
        self._count += device_count


def _packed(
    recorder: Recorder, rows: _Rows, jobs: _Jobs, *, from_at: float, holds_max: int
) -> dict[str, object]:
    """Holds as columns, the largest by device-seconds where there are too many."""
    holds = recorder.holds
    total_s = sum(map(_device_s, holds))
    shown = holds
    if len(holds) > holds_max:
        shown = sorted(holds, key=_device_s, reverse=True)[:holds_max]
    shown = sorted(shown, key=lambda hold: hold.from_at)
    spans = [rows.spans(hold.allocation) for hold in shown]
    return {
        "job": [jobs.index(hold, recorder) for hold in shown],
        "from_s": [_short(hold.from_at - from_at) for hold in shown],
        "lasts_s": [_short(hold.to_at - hold.from_at) for hold in shown],
        "turn": [hold.allocation.turn for hold in shown] if _shares(shown) else [],
        "spans": [number for span in spans for number in (len(span) // 2, *span)],
        "total": len(holds),
        "shown_share": sum(map(_device_s, shown)) / total_s if total_s else 1.0,
    }


def _shares(holds: Iterable[Hold]) -> bool:
    return any(hold.allocation.turn for hold in holds)


def _device_s(hold: Hold) -> float:
    return hold.allocation.size * (hold.to_at - hold.from_at)


def _short(value: float) -> float:
    """Two digits after the point, none where they are zeros: it halves the page."""
    rounded = round(value, 2)
    return int(rounded) if rounded == int(rounded) else rounded
