"""`treadle down`: stop the daemon; jobs keep running unless --drain or --cancel is given."""

import os
import select

import click

from treadle.cli.live.daemon_start import answer
from treadle.cli.live.session import Session, note, remote, session
from treadle.cli.live.status import jobs_line
from treadle.core.errors import TreadleError
from treadle.core.wording import several
from treadle.wire.machine import Status

_WAIT_MAX_S = 60.0


class NotEndedError(TreadleError):
    """The daemon was asked to stop and is still running."""


@click.command()
@click.option(
    "--drain",
    "mode",
    flag_value="drain",
    help="Start no more jobs; stop when the running ones have ended.",
)
@click.option("--cancel", "mode", flag_value="cancel", help="Cancel every job, then stop.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before cancelling jobs.")
def down(mode: str | None, yes: bool) -> int:
    """Stop the daemon. Running jobs keep running, and the next `treadle up` picks them up again."""
    here = session()
    before = answer(here)
    if before is None:
        click.echo("no daemon is running; nothing to stop")
        return 0
    if mode == "cancel" and not yes and not _sure(here, before):
        note("nothing was stopped")
        return 1
    stopping = here.client.shut_down(mode or "leave")
    if mode == "drain":
        click.echo(
            f"the daemon starts no more jobs and stops when the running ones have ended: "
            f"{jobs_line(stopping)}"
        )
        return 0
    _until_gone(here, before.pid)
    click.echo(_gone(before, mode))
    return 0


def _sure(here: Session, before: Status) -> bool:
    jobs = before.running + before.waiting + before.held
    if not jobs or not here.interactive:
        return True
    return click.confirm(f"cancel {several(jobs, 'job')}?")


def _until_gone(here: Session, pid: int) -> None:
    """Wait until it neither answers nor runs: while it shuts down it still holds its store."""
    begun_s = here.stopwatch()
    while _there(here, pid):
        if here.stopwatch() - begun_s > _WAIT_MAX_S:
            raise NotEndedError(
                f"the daemon (pid {pid}) is still running after {_WAIT_MAX_S:.0f} s"
            )
        here.pause(0.02)


def _there(here: Session, pid: int) -> bool:
    found = answer(here)
    if found is not None:
        return found.pid == pid
    return not remote() and _runs(pid)


def _runs(pid: int) -> bool:
    """Whether the process has not ended; a zombie has.

    A pidfd becomes readable when its process ends: nothing is parsed, and no library is needed.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        return not select.select([descriptor], [], [], 0)[0]
    finally:
        os.close(descriptor)


def _gone(before: Status, mode: str | None) -> str:
    if mode == "cancel":
        return "the daemon cancelled its jobs and stopped"
    waiting = before.waiting + before.held
    if not before.running and not waiting:
        return "the daemon stopped; there were no jobs"
    return (
        f"the daemon stopped; jobs remain ({before.running:,} still running, {waiting:,} waiting), "
        "and treadle up picks them up again"
    )
