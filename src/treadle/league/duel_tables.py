"""Duels as a section of the league's document, and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict

from treadle.core.wording import several
from treadle.league.duels import Duel, duels, score
from treadle.league.standings import Row
from treadle.reports.document import Section, Table

_COLUMNS = ("workload", "mean s", "best other", "its mean s", "ratio", "95 %", "p99", "longest")
_NOTE = (
    "ratio: its mean over that of the best other policy of its class, and its 95 % interval: over "
    "seeds or resampled jobs, in the last line over workloads. p99, longest: the same of the 99th "
    "percentile and of the longest completion time"
)


def duel_section(rows: Sequence[Row], policy: str) -> Section:
    """A policy against the best of the others of its class on each workload."""
    title, found = f"{policy} against the best other", duels(rows, policy)
    if not found:
        return Section(title, "", ["no other policy of its class runs"])
    whole = score(found)
    last = [
        *("geometric mean", None, None, None, f"{whole.ratio:.3f}"),
        f"{whole.low:.2f}-{whole.high:.2f}" if len(found) > 1 else None,
        *(f"{whole.p99_ratio:.2f}", f"{whole.longest_ratio:.2f}"),
    ]
    first = f"no worse than each other policy on {whole.first} of {several(len(found), 'workload')}"
    table = Table("", _COLUMNS, [*map(_cells, found), last], _NOTE)
    return Section(title, "", [first], [table])


def duel_object(rows: Sequence[Row], policy: str) -> dict[str, object]:
    found = duels(rows, policy)
    return {
        "workloads": [asdict(one) for one in found],
        "all": asdict(score(found)) if found else None,
    }


def _cells(one: Duel) -> list[str | None]:
    return [
        one.workload,
        f"{one.mean_s:,.0f}" if one.mean_s else None,
        one.other,
        f"{one.other_mean_s:,.0f}" if one.other_mean_s else None,
        f"{one.ratio:.3f}",
        f"{one.low:.2f}-{one.high:.2f}",
        f"{one.p99_ratio:.2f}",
        f"{one.longest_ratio:.2f}",
    ]
