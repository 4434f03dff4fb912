"""The Gantt chart as a figure: time across, devices down, one rectangle for each hold."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.reports.chart_span import ChartSpan
from treadle.reports.comparison import Comparison, Run
from treadle.reports.gantt_rows import HOLDS_MAX, Rows, largest, shown_share
from treadle.reports.metrics import SIZE_BUCKETS, size_bucket
from treadle.reports.run_history import Hold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BUCKET_COLOURS = ("#56b4e9", "#009e73", "#e69f00", "#d55e00")  # as on the page
_IDLE = "#e9edf1"
_VECTORS_MAX = 2000  # rectangles that an SVG holds as shapes; more become one picture in it
_NODES_MAX = 32  # names beside the rows; of more, only some are written
_HOUR_S = 3600.0
_Corners = list[tuple[float, float]]


def draw_gantt(axes: "Axes", comparison: Comparison, shown_first: ChartSpan, *, run: Run) -> None:
    """Draw which job held which devices under one policy, coloured by asked size."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415

    holds = run.recorder.holds
    rows = Rows(comparison.cluster, holds)
    shown = largest(holds, HOLDS_MAX)
    corners = _corners(run, shown, rows, comparison.span()[0])
    is_many = sum(map(len, corners.values())) > _VECTORS_MAX
    for name, shade in zip(SIZE_BUCKETS, BUCKET_COLOURS, strict=True):
        title = "1 device" if name == "1" else f"{name} devices"
        bars = PolyCollection(
            corners[name], facecolors=shade, linewidths=0, label=title, rasterized=is_many
        )
        axes.add_collection(bars, autolim=False)
    axes.set_facecolor(_IDLE)
    axes.set(xlabel=time_title(shown_first), xlim=(0, shown_first.length_s / _HOUR_S or 1.0))
    axes.set_ylim(max(rows.count, 1), 0)
    axes.figure.set(figheight=min(max(4.0, 1.2 + rows.count * 0.12), 9.0))
    _name_nodes(axes, rows)
    axes.set_title(_title(run, shown, holds), loc="left", fontsize=9)


def time_title(shown_first: ChartSpan) -> str:
    """The title of a time axis, with what was cut."""
    title = "time since the first submission (h)"
    if not shown_first.cut_s:
        return title
    return (
        f"{title}\nnot shown: the last {shown_first.cut_s / _HOUR_S:,.0f} h, "
        f"at most {shown_first.cut_devices:,} devices in use"
    )


def _corners(
    run: Run, shown: Sequence[Hold], rows: Rows, from_at: float
) -> dict[str, list[_Corners]]:
    """The rectangles of each size bucket; jobs that share devices get a part of each row."""
    corners: dict[str, list[_Corners]] = {name: [] for name in SIZE_BUCKETS}
    turns = max((hold.allocation.turn for hold in shown), default=0) + 1
    for hold in shown:
        bucket = corners[size_bucket(run.recorder.histories[hold.job].spec.asked)]
        left, right = (hold.from_at - from_at) / _HOUR_S, (hold.to_at - from_at) / _HOUR_S
        spans = rows.spans(hold.allocation)
        for first, count in zip(spans[::2], spans[1::2], strict=True):
            bands = [(first, count)] if turns == 1 else [(first + n, 1) for n in range(count)]
            for row, high in bands:
                top = row + hold.allocation.turn / turns
                bottom = top + high / turns
                bucket.append([(left, top), (right, top), (right, bottom), (left, bottom)])
    return corners


def _name_nodes(axes: "Axes", rows: Rows) -> None:
    every = -(-len(rows.nodes) // _NODES_MAX) or 1
    places, names, row = [], [], 0
    for index, (name, width) in enumerate(rows.nodes):
        if row and len(rows.nodes) <= _NODES_MAX:
            axes.axhline(row, color="white", linewidth=1)
        if index % every == 0:
            places.append(row + width / 2)
            names.append(name[:16].replace("$", r"\$"))
        row += width
    axes.set_yticks(places, names, fontsize=7)
    axes.tick_params(axis="y", length=0)


def _title(run: Run, shown: Sequence[Hold], holds: Sequence[Hold]) -> str:
    name = run.policy.replace("$", r"\$")
    if len(shown) == len(holds):
        return name
    share = 100.0 * shown_share(shown, holds)
    return (
        f"{name}\nthe {len(shown):,} largest of {len(holds):,} holds, {share:.1f} % of device time"
    )
