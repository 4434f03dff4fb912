"""`treadle run`: submit a job, print its output, and exit as it does; Ctrl-C cancels it."""

from typing import Any

import click

from treadle.cli.live.exit_codes import FAILED, NOT_ENDED, end_sentence, exit_code
from treadle.cli.live.job_options import job_options
from treadle.cli.live.log_following import Follower, NeverRunsError, Printer
from treadle.cli.live.session import Session, note, session
from treadle.cli.live.submit import SubmitCommand, job_request, send
from treadle.cli.show.wording import plain
from treadle.core.errors import InvalidInputError
from treadle.core.wording import several
from treadle.wire.jobs import JobDetail
from treadle.wire.problems import ConflictError


@click.command(cls=SubmitCommand, options_metavar="[OPTIONS]")
@click.argument("source", required=False, metavar="[FILE|SCRIPT] [-- COMMAND ...]")
@job_options
@click.option("--no-git", is_flag=True, help="Do not record the git state of the folder.")
@click.pass_context
def run(context: click.Context, /, source: str | None, no_git: bool, **_options: Any) -> int:
    """Run a job in the foreground: its output here, its exit code at the end.

    Ctrl-C cancels the job and waits for its end; a second Ctrl-C leaves it to end by itself.

    \b
    treadle run -d 2 -- python train.py
    """
    here = session()
    request = job_request(context, source, None, git=not no_git)
    if request.array:
        raise InvalidInputError("treadle run takes one job; treadle submit takes an array")
    identity = send(here, request).id
    note(f"job {plain(identity)} submitted, {several_sizes(request.devices)}")
    return attended(here, identity)


def several_sizes(devices: str) -> str:
    if devices.isdigit():
        return several(int(devices), "device")
    few, _, last = devices.replace("..", " to ").rpartition(",")
    return f"{few.replace(',', ', ')} or {last} devices" if few else f"{last} devices"


def attended(here: Session, identity: str) -> int:
    """Follow a job to its end; Ctrl-C cancels it."""
    follower = Follower(here, identity, Printer(raw=not here.terminal))
    cancelled = False
    while True:
        try:
            if cancelled:
                note(f"cancelling job {plain(identity)}; Ctrl-C again leaves it to end by itself")
                _cancel(here, identity)
            return _ended(follower.run())
        except NeverRunsError as error:
            note(str(error))
            _cancel(here, identity)
            return FAILED
        except KeyboardInterrupt:
            if cancelled:
                note(f"left; treadle logs -f {plain(identity)} follows it")
                return NOT_ENDED
            cancelled = True


def _cancel(here: Session, identity: str) -> None:
    try:
        here.client.cancel(identity)
    except ConflictError:
        return  # It has ended by now.


def _ended(detail: JobDetail) -> int:
    code = exit_code(detail.job)
    if code:
        note(end_sentence(detail.job))
    return code
