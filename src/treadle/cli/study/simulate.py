"""`treadle simulate`: simulate one trace under one policy and print the key figures."""

import json
import time
from pathlib import Path
from typing import Any

import click

from treadle.cli.show.progress_bar import Progress
from treadle.cli.study.options import (
    interactive,
    policy_option,
    read,
    rigid_notes,
    run_options,
    settings,
    trace_options,
    warn_never_fit,
)
from treadle.cli.study.run_json import facts
from treadle.sim.experiment import prepare


@click.command()
@trace_options
@policy_option
@run_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--journal", type=Path, metavar="FILE", help="Write every event and action to a journal."
)
def simulate(
    trace: str,
    cluster_text: str,
    oversize: str,
    policy: str,
    as_json: bool,
    journal: Path | None,
    **options: Any,
) -> None:
    """Simulate TRACE (a file, or generate:philly?jobs=5000&seed=1) under one policy."""
    workload, cluster = read(trace, cluster_text, oversize)
    chosen = settings(policy, options)
    experiment = prepare(workload, cluster, chosen)
    progress = Progress(len(workload.jobs), policy)
    ended = progress.advance if interactive() and not as_json else None
    if journal is None:
        summary = experiment.finish(ended)
    else:
        from treadle.cli.study.journal_file import finish_with_journal  # noqa: PLC0415

        summary = finish_with_journal(experiment, journal, ended)
    progress.done()
    warn_never_fit(experiment.simulation.scheduler.unfit)
    if as_json:
        result = facts(workload, experiment, summary, time.process_time())
        click.echo(json.dumps(result, indent=1))
        return
    from treadle.reports.table import summary_text  # noqa: PLC0415

    for note in (*workload.notes, *experiment.notes(), *rigid_notes(workload, chosen)):
        click.echo(f"note: {note}")
    click.echo(summary_text(summary))
