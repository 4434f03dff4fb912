"""What a job used, in a few lines: means, peaks and a small chart of the newest attempt."""

from collections.abc import Sequence

from treadle.cli.show.wording import plain
from treadle.core.wording import gib_text
from treadle.wire.history import AttemptHistory, HistoryPoint, JobHistory, LoadView

BARS = "▁▂▃▄▅▆▇█"
CHART_WIDTH = 40
KWH_J = 3.6e6


def load_lines(history: JobHistory) -> list[tuple[str, str]]:
    """Rows of `treadle describe`; none if nothing was measured."""
    measured = [each for each in history.attempts if each.points]
    if not measured:
        return []
    newest = measured[-1]
    mean, most = newest.mean, newest.most
    rows = [
        ("used", _devices(mean, most)),
        ("", _host(mean, most)),
        ("busy", _chart(newest.points)),
        ("energy", _energy(measured)),
    ]
    many = len(measured) > 1
    named = [(name, text) for name, text in rows if text]
    if named and many:
        first, text = named[0]
        named[0] = (first, f"{text} (attempt {newest.attempt})")
    return [(name or "host use", plain(text)) for name, text in named]


def _devices(mean: LoadView, most: LoadView) -> str:
    parts = []
    if mean.busy is not None and most.busy is not None:
        parts.append(f"devices busy {mean.busy:.0%} on average, {most.busy:.0%} at most")
    if mean.active is not None:
        parts.append(f"multiprocessors {mean.active:.0%}")
    if mean.bandwidth is not None:
        parts.append(f"memory bandwidth {mean.bandwidth:.0%}")
    if most.device_memory_gib is not None:
        parts.append(f"GPU memory {gib_text(most.device_memory_gib)} at most")
    return ", ".join(parts)


def _host(mean: LoadView, most: LoadView) -> str:
    parts = []
    if mean.cores is not None and most.cores is not None:
        parts.append(f"{mean.cores:.2g} cores on average, {most.cores:.2g} at most")
    if most.memory_gib is not None:
        parts.append(f"{gib_text(most.memory_gib)} resident at most")
    if mean.read_mb_s:
        parts.append(f"reads {mean.read_mb_s:.3g} MB/s")
    if mean.written_mb_s:
        parts.append(f"writes {mean.written_mb_s:.3g} MB/s")
    return ", ".join(parts)


def _energy(measured: Sequence[AttemptHistory]) -> str:
    known = [each.energy_j for each in measured if each.energy_j is not None]
    if not known:
        return ""
    total = sum(known)
    return f"{total / KWH_J:.3g} kWh" if total >= 0.01 * KWH_J else f"{total:,.0f} J"


def _chart(points: Sequence[HistoryPoint]) -> str:
    """The busy share over time, oldest first; each bar is the same length of time."""
    known = [point for point in points if point.mean.busy is not None]
    if len(known) < 2:
        return ""
    first, last = known[0].at, known[-1].at + known[-1].span_s
    width = min(CHART_WIDTH, len(known))
    sums = [[0.0, 0.0] for _ in range(width)]
    for point in known:
        middle = point.at + point.span_s / 2
        place = min(width - 1, int((middle - first) / (last - first) * width))
        sums[place][0] += (point.mean.busy or 0.0) * point.span_s
        sums[place][1] += point.span_s
    text = ""
    for total, seconds in sums:
        share = min(1.0, total / seconds) if seconds else None
        text += " " if share is None else BARS[min(len(BARS) - 1, int(share * len(BARS)))]
    return text.rstrip()
