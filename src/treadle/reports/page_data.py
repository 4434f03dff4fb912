"""The page's data as one JSON value: sampled and packed, so that large runs stay small."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import NamedTuple

from treadle.reports.chart_span import ChartSpan, chart_span
from treadle.reports.comparison import Comparison, Run, colour
from treadle.reports.downsample import BINS_MAX, binned, peaks, sampled, short
from treadle.reports.gantt_rows import HOLDS_MAX, Rows, largest, shown_share
from treadle.reports.metrics import SIZE_BUCKETS, by_size, by_tenants, largest_tenants, size_bucket
from treadle.reports.recorder import Recorder
from treadle.reports.run_history import Hold

_CUT_BINS = 300  # points of a curve over the time that is not shown at first


def page_data(comparison: Comparison, *, holds_max: int = HOLDS_MAX) -> dict[str, object]:
    """The value that the page's script reads."""
    from_at, end_at = comparison.span()
    shown_first = chart_span(comparison)
    pieces = _pieces(shown_first, from_at)
    jobs = _Jobs()
    tenants = largest_tenants(comparison.runs[0].recorder)
    runs: list[dict[str, object]] = []
    for index, run in enumerate(comparison.runs):
        waiting = run.waiting()
        rows = Rows(comparison.cluster, run.recorder.holds)
        runs.append(
            {
                "policy": run.policy,
                "colour": colour(index),
                "summary": run.summary.as_dict(),
                "jct": sampled(run.completion_s()),
                "fairness": sampled(run.fairness()),
                "busy": _over_time(binned, run, run.recorder.series.busy, pieces),
                "useful": _over_time(binned, run, run.recorder.series.useful, pieces),
                "waiting": _over_time(binned, run, waiting, pieces),
                "waiting_max": _over_time(peaks, run, waiting, pieces),
                "sizes": [asdict(group) for group in by_size(run.recorder)],
                "tenants": [asdict(group) for group in by_tenants(run.recorder, tenants)],
                "holds": _packed(run.recorder, rows, jobs, from_at=from_at, holds_max=holds_max),
                "nodes": rows.nodes,
            }
        )
    return comparison.header() | {
        "span_s": end_at - from_at,
        "focus": asdict(shown_first),
        "pieces": [[piece.from_at - from_at, piece.step_s, piece.bins] for piece in pieces],
        "causes": comparison.causes(),
        "buckets": list(SIZE_BUCKETS),
        "jobs": jobs.columns(),
        "runs": runs,
    }


class _Piece(NamedTuple):
    """Bins of equal length."""

    from_at: float
    step_s: float
    bins: int


def _pieces(shown_first: ChartSpan, from_at: float) -> list[_Piece]:
    """Fine bins for what is shown first, coarse ones for the rest."""
    pieces = [_Piece(from_at, shown_first.length_s / BINS_MAX or 1.0, BINS_MAX)]
    if shown_first.cut_s:
        cut_at = from_at + shown_first.length_s
        pieces.append(_Piece(cut_at, shown_first.cut_s / _CUT_BINS, _CUT_BINS))
    return pieces


def _over_time(
    shorten: Callable[..., list[float]],
    run: Run,
    values: Sequence[float],
    pieces: Sequence[_Piece],
) -> list[float]:
    at = run.recorder.series.at
    return [point for piece in pieces for point in shorten(at, values, **piece._asdict())]


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
            spec = recorder.histories[hold.job].spec
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


def _packed(
    recorder: Recorder, rows: Rows, jobs: _Jobs, *, from_at: float, holds_max: int
) -> dict[str, object]:
    """Holds as columns, the largest by device-seconds where there are too many."""
    shown = largest(recorder.holds, holds_max)
    spans = [rows.spans(hold.allocation) for hold in shown]
    return {
        "job": [jobs.index(hold, recorder) for hold in shown],
        "from_s": [short(hold.from_at - from_at) for hold in shown],
        "lasts_s": [short(hold.to_at - hold.from_at) for hold in shown],
        "turn": [hold.allocation.turn for hold in shown] if _shares(shown) else [],
        "spans": [number for span in spans for number in (len(span) // 2, *span)],
        "total": len(recorder.holds),
        "shown_share": shown_share(shown, recorder.holds),
    }


def _shares(holds: Iterable[Hold]) -> bool:
    return any(hold.allocation.turn for hold in holds)
