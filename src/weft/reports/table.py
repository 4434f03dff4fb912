"""Results as text for a terminal: one row for each policy, or one run in a few lines."""

from collections.abc import Sequence
from math import inf
from textwrap import fill

from weft.reports.metrics import Summary

WIDTH_MAX = 100
_BOLD, _GREEN, _RED, _RESET = "\x1b[1m", "\x1b[32m", "\x1b[31m", "\x1b[0m"


# Name, length, and the length from which the next unit reads better.
_UNITS = (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800), ("d", 86_400, inf))


def comparison_table(
    summaries: Sequence[Summary], *, ascii_only: bool = False, colour: bool = False
) -> str:
    """One row for each run, at most 100 columns wide; ratios are to the first row."""
    if not summaries:
        return "no runs\n"
    columns = _columns(summaries)
    missing = "-" if ascii_only else "–"
    titles = list(columns)
    rows = [[cell or missing for cell in row] for row in zip(*columns.values(), strict=True)]
    widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
    room = WIDTH_MAX - sum(widths[1:]) - 2 * (len(widths) - 1)
    widths[0] = min(widths[0], max(room, len(titles[0])))
    rule = "  ".join(("-" if ascii_only else "─") * width for width in widths)
    lines = [_line(titles, widths, ascii_only=ascii_only), rule]
    for summary, cells in zip(summaries, rows, strict=True):
        line = _line(cells, widths, ascii_only=ascii_only)
        lines.append(_painted(line, summary, summaries[0]) if colour else line)
    if colour:
        lines[0] = f"{_BOLD}{lines[0]}{_RESET}"
    return "\n".join([*lines, "", *_footnotes(summaries)]).rstrip("\n") + "\n"


def summary_text(summary: Summary) -> str:
    """One run in readable lines."""
    lines = [(title, text) for title, text in _key_figures(summary) if text is not None]
    width = max(len(title) for title, _ in lines)
    text = "".join(f"{title.ljust(width)}  {value}\n" for title, value in lines)
    notes = _not_finished(summary)
    return text + (f"\n{notes}\n" if notes else "")


def duration(seconds: float | None) -> str | None:
    """A length of time in the unit that a person would choose."""
    return None if seconds is None else _in_unit(seconds, *_unit(seconds))


def durations(values: Sequence[float | None]) -> list[str | None]:
    """Lengths of time in one unit where they are close enough to be compared at a glance."""
    known = [abs(value) for value in values if value]
    if not known:
        return [duration(value) for value in values]
    name, unit_s = _unit(min(known))
    if max(known) >= 1000 * unit_s:
        return [duration(value) for value in values]
    return [None if value is None else _in_unit(value, name, unit_s) for value in values]


def percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f}%"


# -- the table ----------------------------------------------------------------------------------


def _columns(summaries: Sequence[Summary]) -> dict[str, list[str | None]]:
    """The cells of each column, by title."""
    return {
        "policy": [summary.policy for summary in summaries],
        "mean JCT": durations([summary.jct_mean_s for summary in summaries]),
        "p50 JCT": durations([summary.jct_p50_s for summary in summaries]),
        "p99 JCT": durations([summary.jct_p99_s for summary in summaries]),
        "mean wait": durations([summary.queue_mean_s for summary in summaries]),
        "makespan": durations([summary.makespan_s for summary in summaries]),
        "in use": [percent(summary.utilization) for summary in summaries],
        "preempted": [f"{summary.preemptions:,}" for summary in summaries],
        "JCT ratio": [_ratio_text(summary, summaries[0]) for summary in summaries],
    }


def _line(cells: Sequence[str], widths: Sequence[int], *, ascii_only: bool) -> str:
    name = cells[0]
    if len(name) > widths[0]:
        name = name[: widths[0] - 1] + ("~" if ascii_only else "…")
    rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "  ".join([name.ljust(widths[0]), *rest])


def _painted(line: str, summary: Summary, baseline: Summary) -> str:
    ratio = _ratio(summary, baseline)
    if summary is baseline or ratio is None or 0.995 <= ratio < 1.005:
        return line
    return f"{_GREEN if ratio < 1 else _RED}{line}{_RESET}"


def _ratio(summary: Summary, baseline: Summary) -> float | None:
    if summary.jct_mean_s is None or not baseline.jct_mean_s:
        return None
    return summary.jct_mean_s / baseline.jct_mean_s


def _ratio_text(summary: Summary, baseline: Summary) -> str | None:
    ratio = _ratio(summary, baseline)
    return None if ratio is None else f"{ratio:.2f}x"


def _footnotes(summaries: Sequence[Summary]) -> list[str]:
    notes = []
    if len(summaries) > 1:
        notes.append(
            f"JCT: submission to finish. JCT ratio: mean JCT over that of {summaries[0].policy}; "
            "below 1 is faster."
        )
    for summary in summaries:
        note = _not_finished(summary)
        if note:
            notes.append(f"{summary.policy}: {note}")
    return [fill(note, WIDTH_MAX, break_on_hyphens=False) for note in notes]


def _not_finished(summary: Summary) -> str:
    """Who is missing from the means, if anyone."""
    parts = [
        f"{count:,} {what}"
        for count, what in (
            (summary.failed, "failed"),
            (summary.cancelled, "cancelled"),
            (summary.never_fit, "can never fit this cluster"),
            (summary.unfinished, "did not finish"),
        )
        if count
    ]
    if not parts:
        return ""
    return f"of {summary.jobs:,} jobs {', '.join(parts)}; means are over the finished ones"


# -- one run ------------------------------------------------------------------------------------


def _key_figures(summary: Summary) -> list[tuple[str, str | None]]:
    return [
        ("policy", summary.policy),
        ("jobs", f"{summary.finished:,} of {summary.jobs:,} finished"),
        ("completion time", _spread(summary, "jct")),
        ("waiting time", _spread(summary, "queue")),
        ("why they waited", _causes(summary)),
        ("makespan", duration(summary.makespan_s)),
        ("devices in use", _usage(summary)),
        ("queue", _queue(summary)),
        ("fairness", _fairness(summary)),
        ("disturbance", _disturbance(summary)),
        ("decisions", f"{summary.decisions:,} in {duration(summary.decide_cpu_s)} of CPU time"),
    ]


def _spread(summary: Summary, what: str) -> str | None:
    if not summary.finished:
        return None
    values = {key: duration(getattr(summary, f"{what}_{key}_s")) for key in ("mean", *_PERCENTS)}
    return f"mean {values['mean']}, " + ", ".join(f"{key} {values[key]}" for key in _PERCENTS)


_PERCENTS = ("p50", "p90", "p99")


def _causes(summary: Summary) -> str | None:
    if summary.wait_causes is None:
        return None
    return ", ".join(f"{cause} {percent(share)}" for cause, share in summary.wait_causes.items())


def _usage(summary: Summary) -> str | None:
    if summary.utilization is None:
        return None
    text = f"{percent(summary.utilization)} of {summary.devices:,}"
    if summary.efficiency is None:
        return text
    return f"{text}, {percent(summary.efficiency)} turned into progress"


def _queue(summary: Summary) -> str | None:
    if summary.queue_length_mean is None or summary.queue_length_max is None:
        return None
    return (
        f"{summary.queue_length_mean:.1f} jobs on average, {summary.queue_length_max:,.0f} at most"
    )


def _fairness(summary: Summary) -> str | None:
    if summary.fairness_mean is None or summary.fairness_p99 is None:
        return None
    return (
        f"{percent(summary.unfair_share)} of jobs would have done better with their share; "
        f"rho mean {summary.fairness_mean:.2f}, p99 {summary.fairness_p99:.2f}"
    )


def _disturbance(summary: Summary) -> str | None:
    counts = {
        "preemptions": summary.preemptions,
        "moves": summary.moves,
        "resizes": summary.resizes,
        "lost nodes": summary.interruptions,
        "failures": summary.failures,
    }
    parts = [f"{name} {count:,}" for name, count in counts.items() if count]
    if summary.lost_gpu_h:
        parts.append(f"{summary.lost_gpu_h:,.1f} GPU hours done again")
    return ", ".join(parts) if parts else "none"


def _unit(seconds: float) -> tuple[str, int]:
    return next((name, unit_s) for name, unit_s, until_s in _UNITS if abs(seconds) < until_s)


def _in_unit(seconds: float, name: str, unit_s: int) -> str:
    return f"{_digits(seconds / unit_s)} {name}"


def _digits(value: float) -> str:
    """Three digits that count; more where the whole part needs them."""
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:,.0f}"
