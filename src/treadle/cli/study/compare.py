"""`treadle compare`: simulate one trace under several policies and compare."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from treadle.cli.show.progress_bar import Progress
from treadle.cli.study.options import (
    command_line,
    interactive,
    names,
    read,
    rigid_notes,
    run_options,
    settings,
    trace_options,
    warn_never_fit,
)
from treadle.core.cluster import Cluster
from treadle.core.wording import several
from treadle.reports.comparison import Comparison, Run
from treadle.reports.export import (
    check_directory,
    check_writable,
    summary_object,
    write_tables,
    write_text,
)
from treadle.reports.page import page
from treadle.reports.table import comparison_table
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload

DEFAULT_POLICIES = "fifo,backfill,srtf,las,tiresias"


@click.command()
@trace_options
@click.option(
    "--policies",
    default=DEFAULT_POLICIES,
    show_default=True,
    metavar="A,B,C",
    help="Policies, with parameters if wanted; the first is the baseline.",
)
@run_options
@click.option("--report", type=Path, metavar="FILE.html", help="Write one self-contained page.")
@click.option("--out", type=Path, metavar="DIR", help="Write the results as CSV and JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def compare(
    context: click.Context,
    /,
    trace: str,
    cluster_text: str,
    oversize: str,
    policies: str,
    report: Path | None,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Simulate TRACE (a file, or generate:philly?jobs=5000&seed=1) under several policies."""
    check_targets(report, out)
    workload, cluster = read(trace, cluster_text, oversize)
    base = settings("fifo", options)
    runs = run_all(workload, cluster, base, names(policies), show=interactive() and not as_json)
    comparison = Comparison(
        title=f"{workload.name} on {cluster_text}",
        command=command_line(context),
        notes=[*notes(workload, cluster, base), *assumed(runs)],
        cluster=cluster,
        runs=runs,
    )
    if as_json:
        click.echo(json.dumps(summary_object(comparison), indent=1))
    else:
        for note in [*_beliefs(base), *assumed(runs)]:
            click.echo(f"note: {note}")
        click.echo(comparison_table([run.summary for run in runs]), nl=False)
    for line in write(comparison, report, out):
        click.echo(line, err=as_json)


def run_all(
    workload: Workload, cluster: Cluster, base: Settings, policies: list[str], *, show: bool
) -> list[Run]:
    """Run one policy after another; a wrong name is reported before the first run."""
    experiments = [prepare(workload, cluster, replace(base, policy=name)) for name in policies]
    progress = Progress(len(workload.jobs) * len(policies), "simulating")
    runs: list[Run] = []
    for name, experiment in zip(policies, experiments, strict=True):
        summary = experiment.finish(progress.advance if show else None)
        unfit = experiment.simulation.scheduler.unfit
        if not runs:
            progress.done()
            warn_never_fit(unfit)
        said = [*experiment.notes(), *rigid_notes(workload, experiment.settings)]
        run = Run(name, summary, experiment.recorder, frozenset(unfit), said)
        runs.append(run)
    progress.done()
    return runs


def notes(workload: Workload, cluster: Cluster, base: Settings) -> list[str]:
    """The conditions of the comparison, for its report."""
    lines = [
        f"{several(len(workload.jobs), 'job')} of {workload.name}"
        + (f" ({workload.format})" if workload.format else ""),
        f"{several(cluster.device_count, 'device')} on {several(len(cluster.nodes), 'node')}",
        f"placement {base.placement}, time {base.time}, seed {base.seed}",
        f"a restart costs {base.restart_cost}, charged to {base.restart_charge}",
    ]
    if base.live:
        lines.append("every policy decides as in a daemon (--live)")
    if base.effects != "none":
        lines.append(f"placement effects on speed: {base.effects}")
    if base.elastic is not None:
        lines.append(f"jobs are elastic, with a serial share of {base.elastic:g} (an assumption)")
    return [*lines, *_beliefs(base), *workload.notes]


def _beliefs(base: Settings) -> list[str]:
    """What policies know of jobs, and what they do not or know inexactly."""
    lines = []
    if base.belief == "known" and not base.belief_error:
        known = base.lengths in ("auto", "known") and not base.length_error
        exact = "speeds and lengths" if known else "speeds"
        lines.append(f"policies know the {exact} of all jobs (--belief known)")
    elif base.belief == "learned":
        lines.append(
            "policies know only the speeds and lengths of jobs that have run (--belief learned)"
        )
    elif base.belief == "prior":
        lines.append(
            "policies know no speeds and assume that every job scales linearly (--belief prior)"
        )
    if base.belief_error and base.belief == "known":
        lines.append(f"policies mispredict speeds by a log-normal factor of {base.belief_error:g}")
    elif base.belief_error:
        lines.append(f"measured speeds are off by a log-normal factor of {base.belief_error:g}")
    if base.lengths in ("steps", "survival"):
        lines.append(f"policies know job lengths from jobs like them (--lengths {base.lengths})")
    elif base.lengths == "losses":
        lines.append("policies know job lengths only from the losses that jobs have reported")
    if base.length_error:
        spread = base.length_error
        lines.append(f"policies see job lengths that are off by a log-normal factor of {spread:g}")
    return lines


def assumed(runs: Sequence[Run]) -> list[str]:
    """The assumptions of the runs, each with its policies."""
    by_note: dict[str, list[str]] = {}
    for run in runs:
        for note in run.notes:
            by_note.setdefault(note, []).append(run.policy)
    return [f"{', '.join(policies)}: {note}" for note, policies in by_note.items()]


def check_targets(report: Path | None, out: Path | None) -> None:
    """Refuse, before a long run, files that could not be written after it."""
    if report is not None:
        check_writable(report)
    if out is not None:
        check_directory(out)


def write(comparison: Comparison, report: Path | None, out: Path | None) -> list[str]:
    """Write the requested files; one line about each."""
    lines = []
    if report is not None:
        write_text(report, page(comparison))
        lines.append(f"report   {report}")
    if out is not None:
        tables = ", ".join(path.name for path in write_tables(comparison, out))
        lines.append(f"tables   {tables} in {out}")
    return lines
