"""`treadle analyze`: the analysis of the Philly study, for any trace or journal."""

import json
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from treadle.cli.show.progress_bar import Progress
from treadle.cli.study.options import (
    command_line,
    interactive,
    policy_choice,
    read,
    run_options,
    settings,
    trace_options,
    warn_never_fit,
)
from treadle.core.errors import InvalidInputError
from treadle.failures.rules import RuleTable
from treadle.reports.document_page import document_page
from treadle.reports.document_text import document_text
from treadle.reports.export import check_writable, write_text
from treadle.sim.experiment import prepare
from treadle.study.analysis import analyse
from treadle.study.analysis_document import document
from treadle.study.as_recorded import as_recorded
from treadle.study.record import Record, replayed, simulated

# Options that apply to a journal as well as to a trace.
_OUTPUT = {"trace", "report", "as_json", "rules_file"}


@click.command()
@trace_options
@policy_choice("backfill")
@run_options
@click.option("--rules", "rules_file", metavar="FILE", help="Additional rules for failure reasons.")
@click.option("--report", type=Path, metavar="FILE.html", help="Write one self-contained page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def analyze(
    context: click.Context,
    /,
    trace: str,
    cluster_text: str,
    oversize: str,
    policy: str,
    rules_file: str | None,
    report: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Analyze TRACE or a journal: waits, device time, failures.

    A trace without start times is simulated first. A journal (of treadle journal, or treadle
    simulate --journal) contains its settings, so run options are refused.
    """
    if report is not None:
        check_writable(report)
    rules = None if rules_file is None else RuleTable.read(rules_file)
    show = interactive() and not as_json
    if _is_journal(trace):
        _check_alone(context, trace)
        record = replayed(Path(trace))
    else:
        record = _of_trace(trace, cluster_text, oversize, policy, options, show=show)
    analysis = analyse(record, rules=rules)
    text = document(analysis, command_line(context))
    if as_json:
        click.echo(json.dumps(analysis.as_dict(), indent=1))
    else:
        click.echo(document_text(text), nl=False)
    if report is not None:
        write_text(report, document_page(text))
        click.echo(f"report   {report}", err=as_json)


def _of_trace(
    trace: str,
    cluster_text: str,
    oversize: str,
    policy: str,
    options: dict[str, Any],
    *,
    show: bool,
) -> Record:
    """The record of a trace that has start times; otherwise of its simulation."""
    workload, cluster = read(trace, cluster_text, oversize)
    chosen = settings(policy, options)
    if workload.runs:
        return as_recorded(workload)
    experiment = prepare(workload, cluster, chosen)
    progress = Progress(len(workload.jobs), "simulating")
    experiment.finish(progress.advance if show else None)
    progress.done()
    warn_never_fit(experiment.simulation.scheduler.unfit)
    return simulated(experiment, workload)


def _is_journal(source: str) -> bool:
    """Whether it is a journal, which begins with a JSON object; no trace does."""
    try:
        with Path(source).open("rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False  # It may be generate:...; if not, the loader reports the error.


def _check_alone(context: click.Context, source: str) -> None:
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if given and name not in _OUTPUT:
            raise InvalidInputError(
                f"{source} is a journal, which contains its settings; remove {parameter.opts[0]}"
            )
