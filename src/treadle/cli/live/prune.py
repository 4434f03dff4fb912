"""`treadle prune`: remove the output of ended jobs, by age or by size."""

from dataclasses import replace

import click

from treadle.cli.live.job_selection import yes_option
from treadle.cli.live.session import echo_json, json_option, note, session
from treadle.cli.show.clock import date_text
from treadle.cli.show.table import Column, table
from treadle.cli.show.wording import plain
from treadle.core.wording import several
from treadle.wire.notation import duration
from treadle.wire.retention import Pruned, PruneRequest, size, size_text

SHOWN = 20  # jobs that are listed


@click.command()
@click.option("--older-than", metavar="AGE", help="Logs of jobs that ended so long ago: 30d, 12h.")
@click.option(
    "--logs-over",
    metavar="SIZE",
    help="The oldest logs, until the rest is no larger than this: 20GiB, 0B.",
)
@click.option(
    "--records", is_flag=True, help="Also delete the records of these jobs; needs --older-than."
)
@click.option("--mine", is_flag=True, help="Only your jobs; for an admin, who else prunes all.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@yes_option
@json_option
def prune(
    older_than: str | None,
    logs_over: str | None,
    records: bool,
    mine: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove logs and attempt folders of ended jobs.

    Without --older-than or --logs-over: what the daemon's setting says, which it applies about
    every hour by itself (treadle up --keep-logs). Checkpoints are never removed.
    """
    here = session()
    request = PruneRequest(
        older_than_s=None if older_than is None else duration(older_than, "--older-than"),
        logs_over=None if logs_over is None else size(logs_over, "--logs-over"),
        records=records,
        mine=mine,
        dry_run=dry_run,
    )
    if records and older_than is None:
        raise click.UsageError("--records needs --older-than, such as --older-than 365d")
    if here.interactive and not yes and not dry_run:
        planned = here.client.prune(replace(request, dry_run=True))
        click.echo(_sentence(planned))
        if not planned.logs and not planned.records:
            return 0
        if not click.confirm("remove it?"):
            note("nothing was removed")
            return 1
    answer = here.client.prune(request)
    if as_json:
        echo_json(answer)
        return 0
    if answer.jobs:
        click.echo(_table(answer, width=here.width))
    click.echo(_sentence(answer))
    return 0


def _table(answer: Pruned, *, width: int) -> str:
    rows = [
        [
            plain(job.id),
            plain(job.user),
            date_text(job.ended_at),
            size_text(job.bytes),
            "yes" if job.record else "",
        ]
        for job in answer.jobs[:SHOWN]
    ]
    more = len(answer.jobs) - len(rows)
    shown = table(_COLUMNS, rows, width=width)
    return f"{shown}\n... and {several(more, 'more job')}" if more else shown


def _sentence(answer: Pruned) -> str:
    head = "would remove" if answer.dry_run else "removed"
    parts = [f"the output of {several(answer.logs, 'job')}, {size_text(answer.bytes)}"]
    if answer.checkpoint_folders:
        parts.append(several(answer.checkpoint_folders, "empty checkpoint folder"))
    if answer.records:
        parts.append(several(answer.records, "record"))
    if answer.journal_lines:
        parts.append(several(answer.journal_lines, "journal line"))
    if not (answer.logs or answer.records or answer.checkpoint_folders or answer.journal_lines):
        return (
            f"nothing to prune; {size_text(answer.kept_bytes)} of output is kept (setting: logs "
            f"{answer.keep_logs}, records {answer.keep_records})"
        )
    return f"{head} {', '.join(parts)}; {size_text(answer.kept_bytes)} of output is kept"


_COLUMNS = (
    Column("JOB"),
    Column("USER", least=6),
    Column("ENDED"),
    Column("SIZE", right=True),
    Column("RECORD"),
)
