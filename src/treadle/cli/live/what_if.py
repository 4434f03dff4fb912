"""`treadle what-if`: the present queue under another policy, on other machines, or without jobs."""

from pathlib import Path

import click

from treadle.cli.live.session import echo_json, json_option, session
from treadle.cli.show.table import Column, table
from treadle.cli.show.wording import plain
from treadle.core.errors import InvalidInputError
from treadle.core.wording import span
from treadle.wire.what_if import Outcome, WhatIf, WhatIfJob, WhatIfRequest

_COLUMNS = (
    Column("JOB", always=True),
    Column("NAME"),
    Column("USER"),
    Column("NOW", right=True, always=True),
    Column("THEN", right=True, always=True),
)
SHOWN = 30
FILE_BYTES_MAX = 2**28


@click.command("what-if")
@click.option("--policy", default="", metavar="POLICY", help="Another policy.")
@click.option("--cluster", default="", metavar="2x8", help="Other machines: NODESxDEVICES.")
@click.option("--without", multiple=True, metavar="JOB", help="Leave this job out; repeatable.")
@json_option
@click.argument("file", type=Path, required=False)
def what_if(
    policy: str, cluster: str, without: tuple[str, ...], as_json: bool, file: Path | None
) -> None:
    """Simulate the present queue as it is and as it might be, and compare.

    FILE: what treadle snapshot or treadle journal wrote, instead of the daemon's present state.
    """
    asked = WhatIfRequest(policy=policy, cluster=cluster, without=without)
    found = session().client.what_if(asked) if file is None else _from_file(file, asked)
    if as_json:
        echo_json(found)
        return
    here = session()
    click.echo(f"now:  {_outcome(found.now)}")
    click.echo(f"then: {_outcome(found.then)}")
    rows = [_row(job) for job in found.jobs[:SHOWN]]
    if rows:
        click.echo(table(_COLUMNS, rows, width=here.width, colour=here.colour))
    if len(found.jobs) > SHOWN:
        click.echo(f"and {len(found.jobs) - SHOWN:,} more; --json prints all")
    for note in found.notes:
        click.echo(f"note: {plain(note)}")


def _from_file(file: Path, asked: WhatIfRequest) -> WhatIf:
    # These take a while to import, and the daemon does without.
    from treadle.study.journal_what_if import journal_what_if  # noqa: PLC0415
    from treadle.study.snapshot_what_if import read_snapshot  # noqa: PLC0415
    from treadle.study.snapshot_what_if import what_if as of_snapshot  # noqa: PLC0415

    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise InvalidInputError(f"{file} is too large to be simulated")
        text = file.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}") from None
    if text[:200].find(b'"kind"') >= 0:
        return journal_what_if(file, asked)
    return of_snapshot(read_snapshot(str(file), text), asked)


def _outcome(found: Outcome) -> str:
    parts = [f"{found.policy} on {found.cluster}", f"{found.ended} of {found.jobs} jobs end"]
    if found.mean_completion_s is not None and found.p90_completion_s is not None:
        parts.append(f"mean {span(found.mean_completion_s)}")
        parts.append(f"90 % within {span(found.p90_completion_s)}")
    if found.makespan_s is not None:
        parts.append(f"all within {span(found.makespan_s)}")
    return plain(", ".join(parts))


def _row(job: WhatIfJob) -> tuple[str, ...]:
    mark = "~" if job.assumed else ""
    ends = ["-" if s is None else f"{mark}{span(s)}" for s in (job.now_s, job.then_s)]
    return (job.job, plain(job.name), plain(job.user), *ends)
