"""What the page shows, as one JSON value: sampled and packed, so that large runs stay small."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from weft.core.allocation import Allocation
from weft.core.cluster import Cluster
from weft.reports.comparison import Comparison, Run, colour
from weft.reports.curves import BINS_MAX, binned, sampled, short
from weft.reports.metrics import SIZE_BUCKETS, by_size, by_tenants, largest_tenants, size_bucket
from weft.reports.recorder import WAIT_CAUSES, Hold, Recorder

HOLDS_MAX = 30_000  # rectangles of one policy's chart of devices


def page_data(comparison: Comparison, *, holds_max: int = HOLDS_MAX) -> dict[str, object]:
    """The value that the page's script reads."""
    from_at, end_at = comparison.span()
    step_s = (end_at - from_at) / BINS_MAX or 1.0
    jobs = _Jobs()
    tenants = largest_tenants(comparison.runs[0].recorder)
    runs: list[dict[str, object]] = []
    for index, run in enumerate(comparison.runs):
        rows = _Rows(comparison.cluster, run.recorder.holds)
        runs.append(
            {
                "policy": run.policy,
                "colour": colour(index),
                "summary": run.summary.as_dict(),
                "jct": sampled(run.completion_s()),
                "fairness": sampled(run.fairness()),
                "busy": _over_time(run, run.recorder.series.busy, from_at, step_s),
                "waiting": _over_time(run, run.waiting(), from_at, step_s),
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


def _over_time(run: Run, values: Sequence[float], from_at: float, step_s: float) -> list[float]:
    at = run.recorder.series.at
    return binned(at, values, from_at=from_at, step_s=step_s, bins=BINS_MAX)


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
    """Which row of the chart a device is: nodes in cluster order, those that joined at the end."""

    def __init__(self, cluster: Cluster, holds: Iterable[Hold]) -> None:
        widths = {node.name: node.device_count for node in cluster.nodes}
        for hold in holds:
            for name, number in hold.allocation.devices:
                if number >= widths.get(name, 0):
                    widths[name] = number + 1
        self.nodes = list(widths.items())  # name and device count
        self._first: dict[str, int] = {}
        count = 0
        for name, width in self.nodes:
            self._first[name] = count
            count += width

    def spans(self, allocation: Allocation) -> list[int]:
        """Rows as first, count, first, count, ..."""
        first = self._first
        rows = sorted(first[name] + number for name, number in allocation.devices)
        spans = [rows[0], 1]
        for row in rows[1:]:
            if row == spans[-2] + spans[-1]:
                spans[-1] += 1
            else:
                spans += [row, 1]
        return spans


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
        "from_s": [short(hold.from_at - from_at) for hold in shown],
        "lasts_s": [short(hold.to_at - hold.from_at) for hold in shown],
        "turn": [hold.allocation.turn for hold in shown] if _shares(shown) else [],
        "spans": [number for span in spans for number in (len(span) // 2, *span)],
        "total": len(holds),
        "shown_share": sum(map(_device_s, shown)) / total_s if total_s else 1.0,
    }


def _shares(holds: Iterable[Hold]) -> bool:
    return any(hold.allocation.turn for hold in holds)


def _device_s(hold: Hold) -> float:
    return hold.allocation.size * (hold.to_at - hold.from_at)
