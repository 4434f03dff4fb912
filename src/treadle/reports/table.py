"""Results as text for a terminal: one row for each policy, or one run in a few lines."""

from collections.abc import Sequence
from math import isfinite
from textwrap import fill

from treadle.core.wording import duration, durations, percent, short_number
from treadle.reports.metrics import Summary

WIDTH_MAX = 100
_UNKNOWN = "-"


def comparison_table(summaries: Sequence[Summary]) -> str:
    """One row for each run, at most 100 columns wide; ratios are to the first row."""
    if not summaries:
        return "no runs\n"
    columns = _columns(summaries)
    titles = list(columns)
    rows = [[cell or "–" for cell in row] for row in zip(*columns.values(), strict=True)]
    widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
    room = WIDTH_MAX - sum(widths[1:]) - 2 * (len(widths) - 1)
    widths[0] = min(widths[0], max(room, len(titles[0])))
    rule = "  ".join("─" * width for width in widths)
    lines = [_line(titles, widths), rule, *(_line(cells, widths) for cells in rows)]
    return "\n".join([*lines, "", *_footnotes(summaries)]).rstrip("\n") + "\n"


def summary_text(summary: Summary) -> str:
    """One run in readable lines."""
    lines = [(title, text) for title, text in _key_figures(summary) if text is not None]
    width = max(len(title) for title, _ in lines)
    text = "".join(f"{title.ljust(width)}  {value}\n" for title, value in lines)
    notes = _not_finished(summary)
    return text + (f"\n{notes}\n" if notes else "")


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
        "preempted": [f"{summary.preemptions + summary.pauses:,}" for summary in summaries],
        "JCT ratio": [_ratio_text(summary, summaries[0]) for summary in summaries],
    }


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One row; a long name is wrapped, since its end may be what matters."""
    first, *more = _wrapped(cells[0], widths[0])
    rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "\n".join(["  ".join([first.ljust(widths[0]), *rest]), *more])


def _wrapped(name: str, width: int) -> list[str]:
    """A name in pieces, broken after ?, & or a comma if possible."""
    pieces = []
    indent = ""
    while len(indent + name) > width:
        room = width - len(indent)
        fits = max((name.rfind(mark, 0, room) + 1 for mark in "?&,"), default=0) or room
        pieces.append(indent + name[:fits])
        name, indent = name[fits:], "  "
    return [*pieces, indent + name]


def _ratio_text(summary: Summary, baseline: Summary) -> str | None:
    if summary.jct_mean_s is None or not baseline.jct_mean_s:
        return None
    ratio = summary.jct_mean_s / baseline.jct_mean_s
    return f"{short_number(ratio, '.2f')}x" if isfinite(ratio) else None


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
    """The jobs that the means leave out, if any."""
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
        ("decisions", f"{summary.decisions:,} in {_cpu(summary)} of CPU time"),
    ]


def _cpu(summary: Summary) -> str:
    return duration(summary.decide_cpu_s) or _UNKNOWN


def _spread(summary: Summary, what: str) -> str | None:
    if not summary.finished:
        return None
    keys = ("mean", *_PERCENTS)
    values = {key: duration(getattr(summary, f"{what}_{key}_s")) or _UNKNOWN for key in keys}
    return f"mean {values['mean']}, " + ", ".join(f"{key} {values[key]}" for key in _PERCENTS)


_PERCENTS = ("p50", "p90", "p99")


def _causes(summary: Summary) -> str | None:
    if summary.wait_causes is None:
        return None
    shares = dict(summary.wait_causes)
    if not shares.get("fair share"):
        shares.pop("fair share", None)  # Most policies have no fair shares.
    return ", ".join(f"{cause} {percent(share) or _UNKNOWN}" for cause, share in shares.items())


def _usage(summary: Summary) -> str | None:
    if summary.utilization is None:
        return None
    text = f"{percent(summary.utilization) or _UNKNOWN} of {summary.devices:,}"
    efficiency = percent(summary.efficiency)
    if efficiency is None:
        return text
    return f"{text}, {efficiency} turned into progress"


def _queue(summary: Summary) -> str | None:
    if summary.queue_length_mean is None or summary.queue_length_max is None:
        return None
    return (
        f"{short_number(summary.queue_length_mean, '.1f')} jobs on average, "
        f"{short_number(summary.queue_length_max, ',.0f')} at most"
    )


def _fairness(summary: Summary) -> str | None:
    if summary.fairness_mean is None or summary.fairness_p99 is None:
        return None
    return (
        f"{percent(summary.unfair_share)} of jobs would have done better with their share; "
        f"rho mean {short_number(summary.fairness_mean, '.2f')}, "
        f"p99 {short_number(summary.fairness_p99, '.2f')}"
    )


def _disturbance(summary: Summary) -> str | None:
    counts = {
        "preemptions": summary.preemptions,
        "pauses": summary.pauses,
        "moves": summary.moves,
        "resizes": summary.resizes,
        "lost nodes": summary.interruptions,
        "failures": summary.failures,
    }
    parts = [f"{name} {count:,}" for name, count in counts.items() if count]
    if summary.lost_gpu_h:
        parts.append(f"{short_number(summary.lost_gpu_h, ',.1f')} GPU hours done again")
    return ", ".join(parts) if parts else "none"
