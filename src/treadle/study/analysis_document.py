"""An analysis as a document: text and tables."""

from collections.abc import Sequence

from treadle.core.wording import digits, duration, percent, several
from treadle.reports.bookkeeping import WAIT_CAUSES
from treadle.reports.document import Document, Section, Table, Tile
from treadle.study.analysis import Analysis
from treadle.study.failure_costs import Failed, Failures
from treadle.study.spells import Spell
from treadle.study.usage import UNKNOWN, Usage
from treadle.study.waits import Waits

_REASONS_MAX = 10
_UNNAMED = "-"


def document(analysis: Analysis, command: str) -> Document:
    """The document of an analysis."""
    sections = [
        _ends(analysis),
        *([_policies(analysis.spells)] if analysis.spells else []),
        _waiting(analysis.waits),
        _device_time(analysis.usage),
        _failing(analysis),
    ]
    return Document(
        title=f"Analysis of {analysis.name}",
        facts=_facts(analysis),
        command=command,
        tiles=_tiles(analysis),
        sections=sections,
        notes=analysis.notes,
    )


def _facts(analysis: Analysis) -> str:
    jobs, span = several(analysis.jobs, "job"), duration(analysis.span_s)
    where = ""
    if analysis.nodes is not None and analysis.devices is not None:
        nodes, devices = several(analysis.nodes, "node"), several(analysis.devices, "device")
        where = f" on {nodes} with {devices}"
    return f"{jobs}{where} over {span}, {analysis.how}"


def _ends(analysis: Analysis) -> Section:
    ends = analysis.ends
    rows = [
        (end.status, f"{end.jobs:,}", percent(end.share), digits(end.gpu_h), percent(end.gpu_share))
        for end in ends
    ]
    table = Table(
        "",
        ("ended", "jobs", "of jobs", "device hours", "of device hours"),
        rows,
        parts=("device hours",),
        shares=[(end.gpu_share,) for end in ends],
    )
    return Section("How jobs ended", "Jobs and the device time that they held.", tables=[table])


def _policies(found: Sequence[Spell]) -> Section:
    lead = (
        "Each policy's time apart: jobs that were submitted and that ended in it, the mean wait "
        "until the first start of those that started in it, and the device time held. Jobs that "
        "one policy leaves behind are the next one's."
    )
    rows = [
        (
            spell.policy,
            duration(spell.to_s - spell.from_s) or _UNNAMED,
            f"{spell.submitted:,}",
            *(f"{count:,}" for count in (spell.finished, spell.failed, spell.cancelled)),
            _UNNAMED if spell.wait_mean_s is None else duration(spell.wait_mean_s) or _UNNAMED,
            digits(spell.gpu_h),
        )
        for spell in found
    ]
    columns = (
        *("policy", "for", "submitted", "finished", "failed", "cancelled"),
        *("mean wait", "device hours"),
    )
    return Section("Policies in turn", lead, tables=[Table("", columns, rows)])


def _waiting(waits: Sequence[Waits]) -> Section:
    times = Table(
        "",
        ("devices", "jobs", "waited", "mean", "p50", "p90", "p99", "all, hours"),
        [
            (
                *(row.size, f"{row.jobs:,}", f"{row.waited:,}"),
                *map(duration, (row.mean_s, row.p50_s, row.p90_s, row.p99_s)),
                digits(row.total_s / 3600.0),
            )
            for row in waits
        ],
    )
    lead = (
        "By how many devices a job asked for; means and percentiles count jobs that did not wait. "
        "devices: fewer were free than it asked for. fragmentation: enough were free, but not "
        "where it could use them. order: it would have fitted, but the policy "
        "had others in front of it, or it paused before a retry. "
        "fair share: its tenant had used its share."
    )
    whole = waits[0]
    if whole.causes_s is None:
        return Section("Waiting", lead, ["Why jobs waited is not recorded."], [times])
    if not whole.total_s:
        return Section("Waiting", lead, ["No job waited."], [times])
    causes = [cause for cause in WAIT_CAUSES if cause != "fair share" or whole.share(cause)]
    waited = [row for row in waits if row.share(causes[0]) is not None]
    shares = [[row.share(cause) or 0.0 for cause in causes] for row in waited]
    table = Table(
        "Why they waited, shares of the time",
        ("devices", *causes),
        [(row.size, *map(percent, parts)) for row, parts in zip(waited, shares, strict=True)],
        parts=causes,
        shares=shares,
    )
    return Section("Waiting", lead, tables=[times, table])


def _device_time(usage: Usage) -> Section:
    lead = (
        "By how many devices a job held, and over how many nodes. Progress: work done over what "
        "the same device time does alone on one node; lower where jobs cross nodes, share, "
        "restart or lose work."
    )
    held = f"Jobs held {digits(usage.gpu_h)} device hours"
    if usage.in_use is not None:
        held += f", {percent(usage.in_use)} of what the cluster had from first to last"
    if usage.progress is not None:
        held += f"; {percent(usage.progress)} of them turned into progress"
    findings = [f"{held}.", "How busy the devices themselves were is not recorded."]
    if usage.progress is None:
        findings.append("How fast jobs progressed is not recorded.")
    if any(use.nodes == UNKNOWN for use in usage.by_spread):
        findings.append("On which nodes jobs ran is not recorded.")
    table = Table(
        "",
        ("devices", "nodes", "holds", "device hours", "of device hours", "progress"),
        [
            (
                *(use.size, use.nodes, f"{use.holds:,}", digits(use.gpu_h)),
                *(percent(use.share), percent(use.progress)),
            )
            for use in usage.by_spread
        ],
        parts=("device hours",),
        shares=[(use.share,) for use in usage.by_spread],
    )
    return Section("Device time by size and spread", lead, findings, [table])


def _failing(analysis: Analysis) -> Section:
    failures = analysis.failures
    lead = (
        "Attempts that failed, and the device time that they held. deterministic: a retry repeats "
        "it. transient: a retry may work. resource: a retry needs more of a resource. unknown: "
        "the log does not say."
    )
    if not failures.attempts:
        return Section("Failures", lead, [_no_failure(analysis)])
    early = ", ".join(
        f"{percent(share)} within {duration(float(limit_s))}"
        for limit_s, share in failures.early.items()
    )
    findings = [
        (
            f"{several(failures.attempts, 'attempt')} of {several(failures.jobs, 'job')} failed "
            f"after {digits(failures.gpu_h)} device hours, {percent(failures.share)} of all; "
            f"{several(failures.lost_jobs, 'job')} failed for good."
        ),
        _repeats(failures),
        f"They failed early: {early}.",
    ]
    by_class = [one for one in failures.by_class if one.attempts]
    reasons = failures.by_reason[:_REASONS_MAX]
    more = len(failures.by_reason) - len(reasons)
    note = f"{several(more, 'more reason')} cost less." if more else ""
    tables = [
        _failed_table("By class", "class", by_class),
        _failed_table("By reason", "reason", reasons, note),
        _failed_table("By devices asked for", "devices", failures.by_size),
    ]
    return Section("Failures", lead, findings, tables)


def _repeats(failures: Failures) -> str:
    if not failures.repeats:
        return "None of them came after a failure of the same job."
    cost = digits(failures.repeats_gpu_h)
    return (
        f"{failures.repeats:,} came after a failure of the same job and cost {cost} device hours."
    )


def _no_failure(analysis: Analysis) -> str:
    failures: Failures = analysis.failures
    if failures.recorded:
        return "No attempt failed."
    bad = [end for end in analysis.ends if end.status in {"unsuccessful", "failed"}]
    if not bad:
        return "Failed attempts are not recorded."
    jobs, gpu_h = sum(end.jobs for end in bad), sum(end.gpu_h for end in bad)
    return (
        f"Attempts and reasons are not recorded; {several(jobs, 'job')} of {analysis.jobs:,} ended "
        f"{bad[0].status} after {digits(gpu_h)} device hours, "
        f"{percent(sum(end.gpu_share for end in bad))} of all."
    )


def _failed_table(title: str, first: str, rows: Sequence[Failed], note: str = "") -> Table:
    has_class = first == "reason"
    columns = (first, *(("class",) if has_class else ()), "attempts", "jobs")
    return Table(
        title,
        (*columns, "ran p50", "ran p90", "device hours", "of these"),
        [
            (
                *(one.name, *((one.kind,) if has_class else ())),
                *(f"{one.attempts:,}", f"{one.jobs:,}"),
                *(duration(one.ran_p50_s), duration(one.ran_p90_s)),
                *(digits(one.gpu_h), percent(one.share)),
            )
            for one in rows
        ],
        note,
        parts=("device hours",),
        shares=[(one.share,) for one in rows],
    )


def _tiles(analysis: Analysis) -> list[Tile]:
    whole, failures = analysis.waits[0], analysis.failures
    return [
        Tile(
            "Mean wait",
            duration(whole.mean_s) or _UNNAMED,
            f"{whole.waited:,} of {several(whole.jobs, 'job')} waited",
        ),
        Tile(
            "Wait for a place",
            percent(whole.share("fragmentation")) or _UNNAMED,
            "of all waiting, while enough devices were free",
        ),
        Tile(
            "Failed attempts",
            digits(failures.gpu_h) if failures.recorded else _UNNAMED,
            f"device hours, {percent(failures.share)} of all"
            if failures.recorded
            else "not recorded",
        ),
    ]
