"""Duels as a section of the league's document, and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict

from treadle.core.wording import several
from treadle.league.duels import CLOSE_TO_BOUND, Duel, Score, duels, score
from treadle.league.standings import Row
from treadle.reports.document import Section, Table

_COLUMNS = (
    *("workload", "mean s", "best other", "its mean s", "ratio", "95 %"),
    *("p99", "longest", "best/LB2"),
)
_NOTE = (
    "ratio: its mean over that of the best other policy of its class, and its 95 % interval: over "
    "seeds or resampled jobs, in the last lines over workloads. p99, longest: the same of the 99th "
    "percentile and of the longest completion time. best/LB2: the best mean of the class over the "
    "lower bound with sharing"
)
_CLOSE = (
    f"; *: within {100 * (CLOSE_TO_BOUND - 1):.0f} % of it, so that the workload cannot tell "
    "policies apart"
)


def duel_section(rows: Sequence[Row], policy: str) -> Section:
    """A policy against the best of the others of its class on each workload."""
    found = duels(rows, policy)
    if not found:
        return Section(_title(policy), "", ["it has no rank beside another policy"])
    whole, telling = score(found), [one for one in found if one.can_tell]
    table_rows = [*map(_cells, found), _sum("geometric mean", whole)]
    note = _NOTE
    if len(telling) < len(found):
        note += _CLOSE
        if telling:
            table_rows.append(_sum("without *", score(telling)))
    first = f"no worse than each other policy on {whole.first} of {several(len(found), 'workload')}"
    return Section(_title(policy), "", [first], [Table("", _COLUMNS, table_rows, note)])


def duel_object(rows: Sequence[Row], policy: str) -> dict[str, object]:
    found = duels(rows, policy)
    telling = [one for one in found if one.can_tell]
    return {
        "workloads": [{**asdict(one), "can_tell": one.can_tell} for one in found],
        "all": asdict(score(found)) if found else None,
        "that_can_tell": asdict(score(telling)) if telling else None,
    }


def _title(policy: str) -> str:
    return f"{policy} against the best other"


def _cells(one: Duel) -> list[str | None]:
    return [
        one.workload,
        f"{one.mean_s:,.0f}",
        one.other,
        f"{one.other_mean_s:,.0f}",
        f"{one.ratio:.3f}",
        f"{one.low:.2f}-{one.high:.2f}",
        f"{one.p99_ratio:.2f}",
        f"{one.longest_ratio:.2f}",
        f"{one.best_to_bound:.2f}" + ("" if one.can_tell else " *"),
    ]


def _sum(name: str, found: Score) -> list[str | None]:
    return [
        name,
        None,
        None,
        None,
        f"{found.ratio:.3f}",
        f"{found.low:.2f}-{found.high:.2f}" if found.workloads > 1 else None,
        f"{found.p99_ratio:.2f}",
        None,
        None,
    ]
