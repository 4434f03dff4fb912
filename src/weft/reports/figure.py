"""The page's figures as files for papers and slides: PNG and SVG, drawn by matplotlib.

Each figure is an object of its own on the Agg canvas; pyplot and its global state stay out.
"""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from weft.core.errors import InvalidInputError
from weft.reports.comparison import Comparison, Run, colour
from weft.reports.curves import binned
from weft.reports.export import make_directory, write_bytes
from weft.reports.metrics import SIZE_BUCKETS, by_size
from weft.reports.recorder import WAIT_CAUSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg")
_CAUSE_COLOURS = ("#0072b2", "#e69f00", "#999999")  # as on the page
_HOUR_S = 3600.0
_BINS = 400  # points of a curve over time; more would be a carpet at this size


def figures(comparison: Comparison, directory: Path) -> list[Path]:
    """Draw every figure as PNG and as SVG; the paths written, in order."""
    try:
        # Heavy, and an extra: only whoever asks for figures pays for it.
        import matplotlib  # noqa: PLC0415
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise InvalidInputError(
            "figures need matplotlib; install it with pip install 'weft[figures]'"
        ) from error
    make_directory(directory)
    paths = []
    # A fixed salt and no date: the same run draws the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "weft", "svg.fonttype": "none"}):
        for name, draw in _DRAWINGS.items():
            figure = Figure(figsize=(7.0, 4.0), layout="constrained")
            FigureCanvasAgg(figure)
            axes = figure.add_subplot()
            axes.spines[["top", "right"]].set_visible(False)
            draw(axes, comparison)
            handles, names = axes.get_legend_handles_labels()
            if handles:
                figure.legend(handles, names, loc="outside upper left", ncols=5, frameon=False)
            for extension in FORMATS:
                path = directory / f"{name}.{extension}"
                metadata = {"Date": None} if extension == "svg" else {"Software": None}
                picture = BytesIO()
                figure.savefig(picture, format=extension, dpi=160, metadata=metadata)
                write_bytes(path, picture.getvalue())
                paths.append(path)
    return paths


def _completion(axes: "Axes", comparison: Comparison) -> None:
    """The distribution of completion times."""
    longest_h = 0.0
    for index, run in enumerate(comparison.runs):
        hours = sorted(seconds / _HOUR_S for seconds in run.completion_s())
        if not hours:
            continue
        shares = [100.0 * (rank + 1) / len(hours) for rank in range(len(hours))]
        axes.step(hours, shares, where="post", color=colour(index), label=_plain(run.policy))
        longest_h = max(longest_h, hours[-1])
    if longest_h > 0.0:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="completion time (h)", ylabel="finished jobs (%)", ylim=(0, 101))
    _finish(axes)


def _devices(axes: "Axes", comparison: Comparison) -> None:
    """Devices in use over time."""
    _over_time(axes, comparison, lambda run: run.recorder.series.busy)
    limit = comparison.cluster.device_count
    axes.set(ylabel="devices in use", ylim=(0, limit * 1.03))
    _finish(axes)


def _queue(axes: "Axes", comparison: Comparison) -> None:
    """Jobs waiting over time."""
    _over_time(axes, comparison, Run.waiting)
    axes.set(ylabel="jobs waiting")
    axes.set_ylim(bottom=0)
    _finish(axes)


def _sizes(axes: "Axes", comparison: Comparison) -> None:
    """Mean completion time of each size bucket, one bar for each policy."""
    wide = 0.8 / len(comparison.runs)
    for index, run in enumerate(comparison.runs):
        means = {group.name: group.jct_mean_s for group in by_size(run.recorder)}
        heights = [(means.get(name) or 0.0) / _HOUR_S for name in SIZE_BUCKETS]
        places = [at + (index - (len(comparison.runs) - 1) / 2) * wide for at in range(4)]
        axes.bar(places, heights, width=wide, color=colour(index), label=_plain(run.policy))
    axes.set_xticks(range(4), SIZE_BUCKETS)
    axes.set(xlabel="devices asked for", ylabel="mean completion time (h)")
    _finish(axes)


def _waits(axes: "Axes", comparison: Comparison) -> None:
    """Why jobs waited, as shares of all waiting."""
    names = [_plain(run.policy) for run in comparison.runs]
    done = [0.0] * len(names)
    for cause, shade in zip(WAIT_CAUSES, _CAUSE_COLOURS, strict=True):
        causes = [run.summary.wait_causes for run in comparison.runs]
        shares = [100.0 * shares[cause] if shares else 0.0 for shares in causes]
        axes.barh(range(len(names)), shares, left=done, color=shade, label=cause, height=0.6)
        done = [start + share for start, share in zip(done, shares, strict=True)]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel="waiting time (%)", xlim=(0, 100))
    _finish(axes)


_DRAWINGS: dict[str, Callable[["Axes", Comparison], None]] = {
    "completion": _completion,
    "devices": _devices,
    "queue": _queue,
    "sizes": _sizes,
    "waits": _waits,
}


def _over_time(
    axes: "Axes", comparison: Comparison, values: Callable[[Run], Sequence[float]]
) -> None:
    """Time-weighted means of bins, as on the page."""
    from_at, end_at = comparison.span()
    step_s = (end_at - from_at) / _BINS or 1.0
    for index, run in enumerate(comparison.runs):
        at = run.recorder.series.at
        means = binned(at, values(run), from_at=from_at, step_s=step_s, bins=_BINS)
        hours = [place * step_s / _HOUR_S for place in range(len(means))]
        axes.step(
            hours, means, where="post", color=colour(index), label=_plain(run.policy), linewidth=1
        )
    axes.set(xlabel="time since the first submission (h)")
    axes.set_xlim(left=0)


def _plain(name: str) -> str:
    """A name that matplotlib takes as it is: no formula, and not hidden for an underscore."""
    return " " + name.replace("$", r"\$") if name.startswith("_") else name.replace("$", r"\$")


def _finish(axes: "Axes") -> None:
    axes.grid(axis="both", color="#eceff3")
    axes.set_axisbelow(True)
