"""The page's figures as image files for papers and slides."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.reports.chart_span import ChartSpan, chart_span
from treadle.reports.comparison import Comparison, Run, colour
from treadle.reports.downsample import binned, peaks
from treadle.reports.export import make_directory
from treadle.reports.figure_files import add_legend, check_available, file_name, new_picture, save
from treadle.reports.gantt_figure import draw_gantt, time_title
from treadle.reports.metrics import SIZE_BUCKETS, Group, by_size, by_tenants, largest_tenants

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Drawing = Callable[[Axes, Comparison, ChartSpan], None]

_CAUSE_COLOURS = ("#0072b2", "#e69f00", "#999999", "#cc79a7")  # as on the page
_HOUR_S = 3600.0
_BESIDE_MAX = 28  # letters of a name beside its bars
_BINS = 400  # points of a curve over time; more would be unreadable at this size


def figures(comparison: Comparison, directory: Path) -> list[Path]:
    """Draw every figure as PNG and as SVG; the paths written, in order."""
    check_available()
    make_directory(directory)
    paths = []
    shown_first = chart_span(comparison)
    for name, draw in _drawings(comparison).items():
        picture = new_picture()
        draw(picture.axes[0], comparison, shown_first)
        add_legend(picture)
        paths += save(picture, directory, name)
    return paths


def _drawings(comparison: Comparison) -> "dict[str, Drawing]":
    """What to draw, by file name: the figures of all runs, and a chart of devices for each."""
    gantts = {
        name: partial(draw_gantt, run=run)
        for name, run in zip(_gantt_names(comparison), comparison.runs, strict=True)
    }
    shared = dict(_DRAWINGS)
    if all(run.summary.efficiency is None for run in comparison.runs):
        del shared["efficiency"]  # Unknown, and a line at zero would be wrong.
    return {**shared, **gantts}


def _gantt_names(comparison: Comparison) -> list[str]:
    """Portable file names, with a number where two would be equal."""
    names: list[str] = []
    for run in comparison.runs:
        name = f"gantt-{file_name(run.policy) or 'policy'}"
        same = sum(1 for other in names if re.fullmatch(re.escape(name) + r"(-\d+)?", other))
        names.append(f"{name}-{same + 1}" if same else name)
    return names


def _completion(axes: "Axes", comparison: Comparison, shown_first: ChartSpan) -> None:  # noqa: ARG001
    """The distribution of completion times."""
    _distribution(axes, [[s / _HOUR_S for s in run.completion_s()] for run in comparison.runs])
    _name_runs(axes, comparison)
    axes.set(xlabel="completion time (h)")


def _fairness(axes: "Axes", comparison: Comparison, shown_first: ChartSpan) -> None:  # noqa: ARG001
    """The distribution of finish-time fairness; 1 is an equal share."""
    _distribution(axes, [run.fairness() for run in comparison.runs])
    _name_runs(axes, comparison)
    axes.axvline(1.0, color="#1b2330", linewidth=1, linestyle=(0, (4, 4)), alpha=0.6)
    axes.set(xlabel="finish-time fairness (right of 1: worse than an equal share)")


def _devices(axes: "Axes", comparison: Comparison, shown_first: ChartSpan) -> None:
    """Devices in use over time."""
    _over_time(axes, comparison, shown_first, lambda run: run.recorder.series.busy)
    axes.set(ylabel="devices in use", ylim=(0, comparison.cluster.device_count * 1.03))


def _efficiency(axes: "Axes", comparison: Comparison, shown_first: ChartSpan) -> None:
    """Device time turned into progress, over time."""
    limit = comparison.cluster.device_count
    _over_time(axes, comparison, shown_first, lambda run: _percents(run, limit))
    axes.set(ylabel="devices turned into progress (%)")
    axes.set_ylim(bottom=0)


def _percents(run: Run, limit: int) -> Sequence[float]:
    return [100.0 * useful / limit for useful in run.recorder.series.useful]


def _queue(axes: "Axes", comparison: Comparison, shown_first: ChartSpan) -> None:
    """Jobs waiting over time: means as lines, with a band up to the maximum."""
    _over_time(axes, comparison, shown_first, Run.waiting, has_peaks=True)
    axes.set(ylabel="jobs waiting (band: maximum)")
    axes.set_ylim(bottom=0)


def _sizes(axes: "Axes", comparison: Comparison, shown_first: ChartSpan) -> None:  # noqa: ARG001
    """Mean completion time of each size bucket, one bar for each policy."""
    runs = comparison.runs
    wide = 0.8 / len(runs)
    for index, run in enumerate(runs):
        heights = _mean_hours(by_size(run.recorder), SIZE_BUCKETS)
        places = [at + (index - (len(runs) - 1) / 2) * wide for at in range(len(SIZE_BUCKETS))]
        axes.bar(places, heights, width=wide, color=colour(index), label=_plain(run.policy))
    axes.set_xticks(range(len(SIZE_BUCKETS)), SIZE_BUCKETS)
    axes.set(xlabel="devices asked for", ylabel="mean completion time (h)")
    _add_grid(axes)


def _tenants(axes: "Axes", comparison: Comparison, shown_first: ChartSpan) -> None:  # noqa: ARG001
    """Mean completion time of each tenant, the largest user on top; one bar for each policy."""
    runs = comparison.runs
    largest = largest_tenants(runs[0].recorder)
    groups = [by_tenants(run.recorder, largest) for run in runs]
    names = list(dict.fromkeys(group.name for some in groups for group in some))
    wide = 0.8 / len(runs)
    for index, (run, some) in enumerate(zip(runs, groups, strict=True)):
        places = [at + (index - (len(runs) - 1) / 2) * wide for at in range(len(names))]
        lengths = _mean_hours(some, names)
        axes.barh(places, lengths, height=wide, color=colour(index), label=_plain(run.policy))
    axes.set_yticks(range(len(names)), [_cut(name) for name in names])
    axes.invert_yaxis()
    axes.set(xlabel="mean completion time (h)")
    axes.figure.set(figheight=max(4.0, 1.2 + len(names) * (0.22 + 0.1 * len(runs))))
    _add_grid(axes)


def _mean_hours(groups: Sequence[Group], names: Sequence[str]) -> list[float]:
    means = {group.name: group.jct_mean_s for group in groups}
    return [(means.get(name) or 0.0) / _HOUR_S for name in names]


def _waits(axes: "Axes", comparison: Comparison, shown_first: ChartSpan) -> None:  # noqa: ARG001
    """Why jobs waited, as shares of all waiting."""
    names = [_broken(_plain(run.policy)) for run in comparison.runs]
    done = [0.0] * len(names)
    for cause, shade in zip(comparison.causes(), _CAUSE_COLOURS, strict=False):
        causes = [run.summary.wait_causes for run in comparison.runs]
        shares = [100.0 * shares[cause] if shares else 0.0 for shares in causes]
        axes.barh(range(len(names)), shares, left=done, color=shade, label=cause, height=0.6)
        done = [start + share for start, share in zip(done, shares, strict=True)]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel="waiting time (%)", xlim=(0, 100))
    _add_grid(axes)


_DRAWINGS: "dict[str, Drawing]" = {
    "completion": _completion,
    "devices": _devices,
    "efficiency": _efficiency,
    "queue": _queue,
    "sizes": _sizes,
    "tenants": _tenants,
    "waits": _waits,
    "fairness": _fairness,
}


def _distribution(axes: "Axes", values: Sequence[Sequence[float]]) -> None:
    """The share of jobs up to each value; one curve for each run, also for empty ones."""
    largest = 0.0
    for index, some in enumerate(values):
        ordered = sorted(filter(isfinite, some))
        shares = [100.0 * (rank + 1) / len(ordered) for rank in range(len(ordered))]
        axes.step(ordered, shares, where="post", color=colour(index))
        largest = max([largest, *ordered[-1:]])
    if largest > 0.0:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    axes.set(ylabel="finished jobs (%)", ylim=(0, 101))
    _add_grid(axes)


def _name_runs(axes: "Axes", comparison: Comparison) -> None:
    for line, run in zip(axes.get_lines(), comparison.runs, strict=True):
        line.set_label(_plain(run.policy))


def _over_time(
    axes: "Axes",
    comparison: Comparison,
    shown_first: ChartSpan,
    values: Callable[[Run], Sequence[float]],
    *,
    has_peaks: bool = False,
) -> None:
    """Time-weighted means of bins, as on the page."""
    from_at, _ = comparison.span()
    step_s = shown_first.length_s / _BINS or 1.0
    for index, run in enumerate(comparison.runs):
        at, points = run.recorder.series.at, values(run)
        means = binned(at, points, from_at=from_at, step_s=step_s, bins=_BINS)
        hours = [place * step_s / _HOUR_S for place in range(len(means))]
        axes.step(hours, means, where="post", color=colour(index), lw=1, label=_plain(run.policy))
        if has_peaks:
            most = peaks(at, points, from_at=from_at, step_s=step_s, bins=_BINS)
            axes.fill_between(hours, means, most, step="post", color=colour(index), alpha=0.2, lw=0)
    axes.set(xlabel=time_title(shown_first))
    axes.set_xlim(0, shown_first.length_s / _HOUR_S or 1.0)
    _add_grid(axes)


def _plain(name: str) -> str:
    """A name escaped for matplotlib, which reads $ as a formula and hides a leading underscore."""
    return " " + name.replace("$", r"\$") if name.startswith("_") else name.replace("$", r"\$")


def _broken(name: str) -> str:
    """A long name on several lines, broken before its parameters."""
    return name if len(name) <= _BESIDE_MAX else re.sub(r"(?<=[?&,])(?!$)", "\n", name)


def _cut(name: str) -> str:
    return _plain(name if len(name) <= _BESIDE_MAX else name[: _BESIDE_MAX - 1] + "…")


def _add_grid(axes: "Axes") -> None:
    axes.grid(axis="both", color="#eceff3")
    axes.set_axisbelow(True)
