"""The league as a document: a table for each workload and class, and one over all workloads."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from treadle.core.wording import ordinal, several
from treadle.league.competition import Plan
from treadle.league.duel_tables import duel_object, duel_section
from treadle.league.standings import GROUPS, LOSS, Overall, Row, by_workload, overall
from treadle.league.workload_list import LeagueWorkload
from treadle.policies.registry import in_full
from treadle.reports.document import Document, Section, Table

_COLUMNS = (
    *("policy", "mean s", "95 %", "p99 s", "makespan s", "unfair", "moves", "CPU s", "MB"),
    *("/best", "/LB1", "/LB2"),
)
_OVERALL = (
    *("policy", "/best", "/other", "p99/best", "/LB2", "first", "ranked", "worst", "at"),
    *("CPU s", "MB"),
)
_ALL = "all workloads"
_LONGEST_BAR = 3.0  # times the best mean of the class


def document(plan: Plan, rows: Sequence[Row], skipped: Mapping[str, str], command: str) -> Document:
    """What is printed, and what the page shows."""
    sections = [_section(one, rows) for one in plan.workloads]
    sections += [_parameter_section(plan), _overall_section(rows)]
    sections += [duel_section(rows, policy) for policy in plan.against]
    facts = (
        f"{several(len(plan.policies), 'policy', 'policies')} on "
        f"{several(len(plan.workloads), 'workload')}; generated ones with "
        f"{several(plan.seeds, 'seed')} each"
    )
    return Document("The league", facts, command, (), sections, [*_notes(plan), *_said(skipped)])


def for_page(printed: Document) -> Document:
    """The same with the tables over all workloads first; in a terminal the end is read first."""
    at = next(i for i, one in enumerate(printed.sections) if one.title == _ALL)
    return replace(printed, sections=[*printed.sections[at:], *printed.sections[:at]])


def league_object(
    plan: Plan, rows: Sequence[Row], skipped: Mapping[str, str], command: str
) -> dict[str, object]:
    """The same as one JSON object."""
    return {
        "command": command,
        "seeds": plan.seeds,
        "cpu_limit_s": plan.cpu_limit_s,
        "workloads": [_facts(one) for one in plan.workloads],
        "policies": {policy: in_full(policy) for policy in plan.policies},
        "skipped": dict(skipped),
        "rows": [_row_object(row) for row in rows],
        "overall": [asdict(one) for one in overall(rows)],
        "against": {policy: duel_object(rows, policy) for policy in plan.against},
    }


def _row_object(row: Row) -> dict[str, object]:
    found = {**asdict(row), "to_alone": row.to_alone}
    del found["resampled_s"]  # of use only beside those of another row
    return found


def list_text(workloads: Sequence[LeagueWorkload], sizes: Mapping[str, str]) -> str:
    """The list of workloads for a terminal; `sizes`: how many jobs each has, as text."""
    lines = []
    for one in workloads:
        sampled = [f"every {ordinal(one.every)} job"] if one.every > 1 else []
        sampled += [f"the first {one.first}"] if one.first else []
        jobs = ", ".join([sizes[one.name], *sampled])
        lines += [
            f"{one.name}: {one.why}",
            f"    {one.trace} ({jobs}) on {one.cluster}",
            f"    {one.command()}",
        ]
    return "\n".join(lines)


def list_object(
    workloads: Sequence[LeagueWorkload], sizes: Mapping[str, str]
) -> list[dict[str, object]]:
    return [{**_facts(one), "jobs": sizes[one.name]} for one in workloads]


def _facts(one: LeagueWorkload) -> dict[str, object]:
    return {
        "name": one.name,
        "trace": one.trace,
        "cluster": one.cluster,
        "every": one.every,
        "first": one.first,
        "seed": one.seed,
        "options": one.command(),
        "why": one.why,
    }


def _section(one: LeagueWorkload, rows: Sequence[Row]) -> Section:
    tables = [
        _table(group, found)
        for (workload, group), found in by_workload(rows).items()
        if workload == one.name
    ]
    lead = f"{one.why}. {one.trace} on {one.cluster}, {one.command()}."
    return Section(one.name, lead, (), tables)


def _table(group: str, rows: Sequence[Row]) -> Table:
    good = [row for row in rows if not row.trouble]
    note = "; ".join(f"{row.policy}: {row.trouble}" for row in rows if row.trouble)
    best_s = good[0].mean_s if good else 0.0
    return Table(
        f"{group}: {GROUPS[group]}",
        _COLUMNS,
        [_cells(row) for row in rows],
        note,
        parts=("lower bound with sharing", "above it"),
        shares=[_bar(row, best_s) for row in rows],
    )


def _cells(row: Row) -> list[str | None]:
    if row.trouble:
        return [row.policy, *[None] * (len(_COLUMNS) - 1)]
    half = (row.high_s - row.low_s) / 2 / row.mean_s if row.mean_s else 0.0
    return [
        row.policy,
        f"{row.mean_s:.0f}",
        f"±{100 * half:.0f} %",
        f"{row.p99_s:.0f}",
        f"{row.makespan_s:.0f}",
        f"{row.unfairness:.2f}",
        f"{row.moves:.0f}",
        f"{row.decide_cpu_s:.1f}",
        f"{row.peak_mb:.0f}",
        f"{row.to_best:.3f}" + (f" ±{row.to_best_half:.2f}" if row.seeds > 1 else ""),
        f"{row.to_alone:.2f}",
        f"{row.to_shared:.2f}",
    ]


def _bar(row: Row, best_s: float) -> tuple[float, float]:
    """The bound and what is above it; a full bar is three times the best of the class."""
    if row.trouble or not best_s:
        return (0.0, 0.0)
    whole_s = _LONGEST_BAR * best_s
    bound = min(row.bound_shared_s / whole_s, 1.0)
    return (bound, min(row.mean_s / whole_s, 1.0) - bound)


def _parameter_section(plan: Plan) -> Section:
    """The parameters of each policy: defaults are the best that are known."""
    named = [in_full(policy).partition("?") for policy in plan.policies]
    table = Table("", ("policy", "parameters"), [(name, query) for name, _, query in named])
    return Section("parameters", "", (), [table])


def _overall_section(rows: Sequence[Row]) -> Section:
    lines = overall(rows)
    lost = [f"{row.policy} lost {row.workload}: {row.trouble}" for row in rows if row.trouble]
    groups = list(dict.fromkeys(one.group for one in lines))
    tables = [
        Table(
            f"{group}: {GROUPS[group]}",
            _OVERALL,
            [_overall_cells(one) for one in lines if one.group == group],
            parts=("geometric mean of /best",),
            shares=[(min(one.to_best / _LONGEST_BAR, 1.0),) for one in lines if one.group == group],
        )
        for group in groups
    ]
    return Section(_ALL, "Geometric means over the workloads.", lost, tables)


def _overall_cells(one: Overall) -> list[str | None]:
    def ratio(value: float) -> str | None:
        return f"{value:.3f}" if value else None

    return [
        one.policy,
        ratio(one.to_best),
        ratio(one.to_other),
        ratio(one.p99_to_best),
        ratio(one.to_shared),
        str(one.first),
        f"{one.ranked} of {one.workloads}",
        ratio(one.worst),
        one.worst_at or None,
        f"{one.cpu_max_s:.1f}",
        f"{one.peak_mb:.0f}" if one.peak_mb else None,
    ]


_NOTES = (
    (
        "mean, p99: completion times. unfair: the 99th percentile of finish-time fairness; 1 is an "
        "equal share. moves: restarts, resizes and moves. CPU s: of deciding; over all workloads, "
        "of the slowest run as a whole. MB: memory of the largest run's process"
    ),
    (
        "/best: mean over the best of its class; /other: over the best of the others, below 1 if "
        "it is the best itself. /LB1, /LB2: mean over the lower bound without and with sharing; a "
        "policy that shares may be below LB1"
    ),
    (
        "a row without figures is a loss: it was cut off, jobs did not finish, or a check failed. "
        f"It counts as {LOSS:g} times the worst ratio of its class on that workload"
    ),
)
_ONE_SEED = "95 %: interval of the mean, by resampling the jobs of the run"
_SEEDS = (
    "95 %: interval of the mean. Of generated workloads over the seeds (Student's t), and ± behind "
    "/best is that of the ratios of the same seeds; of trace files by resampling the jobs"
)


def _notes(plan: Plan) -> list[str]:
    several_seeds = plan.seeds > 1 and any(one.drawn for one in plan.workloads)
    return [*_NOTES, _SEEDS if several_seeds else _ONE_SEED]


def _said(skipped: Mapping[str, str]) -> list[str]:
    return [f"{name} was skipped: {reason}" for name, reason in skipped.items()]
