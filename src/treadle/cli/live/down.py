"""`treadle down`: stop the daemon; jobs keep running unless --drain or --cancel is given."""

import os
import select

import click

from treadle.cli.live.daemon_start import answer, running
from treadle.cli.live.exit_codes import NOT_ENDED
from treadle.cli.live.session import Session, note, remote, session
from treadle.cli.live.status import jobs_line
from treadle.cli.show.wording import plain
from treadle.core.errors import TreadleError
from treadle.core.wording import several, span
from treadle.wire.machine import Status
from treadle.wire.notation import duration

_WAIT_MAX_S = 60.0
_LOOK_EVERY_S = 0.1
_SAY_EVERY_S = 5.0


class NotEndedError(TreadleError):
    """The daemon was asked to stop and is still running."""


@click.command()
@click.option(
    "--drain",
    "mode",
    flag_value="drain",
    help="Start no more jobs; stop when the running ones have ended.",
)
@click.option(
    "--cancel",
    "mode",
    flag_value="cancel",
    help="Cancel every job, wait until all have ended, then stop.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before cancelling jobs.")
@click.option(
    "--timeout",
    metavar="10m",
    help="With --cancel: stop waiting after this time, with exit code 101.",
)
def down(mode: str | None, yes: bool, timeout: str | None) -> int:
    """Stop the daemon. Running jobs keep running, and the next `treadle up` picks them up again."""
    here = session()
    limit_s = None if timeout is None else duration(timeout, "--timeout")
    if limit_s is not None and mode != "cancel":
        raise click.UsageError("--timeout goes with --cancel, which waits for the jobs to end")
    before = running(here)
    if before is None:
        click.echo(f"no daemon listens on {plain(str(here.client.address))}; nothing to stop")
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
    if mode == "cancel":
        code = _until_ended(here, stopping, limit_s)
        if code:
            return code
    until_gone(here, before.pid)
    click.echo(_gone(before, mode))
    return 0


def _sure(here: Session, before: Status) -> bool:
    """Whether the user agrees; a script has no terminal to be asked on and needs -y."""
    jobs = _jobs(before)
    if not jobs:
        return True
    if not here.interactive:
        raise click.UsageError(
            f"--cancel cancels {several(jobs, 'job')}, and there is no terminal to ask on; "
            "give -y to cancel without a question"
        )
    return click.confirm(f"cancel {several(jobs, 'job')}?")


def _until_ended(here: Session, found: Status, limit_s: float | None) -> int:
    """Wait until every job has ended, and say how many have not; 0, or the exit code."""
    begun_s, said, said_s = here.stopwatch(), 0, 0.0
    pid = found.pid
    try:
        while left := _jobs(found):
            now_s = here.stopwatch()
            if limit_s is not None and now_s - begun_s > limit_s:
                note(
                    f"{several(left, 'job')} not ended after {span(limit_s)}; the daemon goes on "
                    "and stops once they have"
                )
                return NOT_ENDED
            if left != said or now_s - said_s >= _SAY_EVERY_S:
                click.echo(f"waiting for {several(left, 'job')}; {_grace(found)}", err=True)
                said, said_s = left, now_s
            here.pause(_LOOK_EVERY_S)
            again = answer(here)
            if again is None or again.pid != pid:
                break
            found = again
    except KeyboardInterrupt:
        note("interrupted; the daemon goes on cancelling, and stops once its jobs have ended")
        return 130
    return 0


def _grace(found: Status) -> str:
    if found.grace_left_s > 0:
        return f"up to {span(found.grace_left_s)} of grace left"
    if found.problem:
        return found.problem
    return "their grace is over, and they are killed"


def _jobs(found: Status) -> int:
    return _under_way(found) + found.waiting + found.held + found.paused


def _under_way(found: Status) -> int:
    """Jobs that have devices."""
    return found.running + found.starting + found.stopping


def until_gone(here: Session, pid: int) -> None:
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
    except ProcessLookupError:
        return False
    try:
        return not select.select([descriptor], [], [], 0)[0]
    finally:
        os.close(descriptor)


def _gone(before: Status, mode: str | None) -> str:
    jobs = _jobs(before)
    if not jobs:
        return "the daemon stopped; no job was running or waiting"
    if mode == "cancel":
        return f"{several(jobs, 'job')} ended, and the daemon stopped"
    left = f"{_under_way(before):,} still running, {before.waiting:,} waiting"
    for count, word in ((before.held, "held"), (before.paused, "paused")):
        left += f", {count:,} {word}" if count else ""
    return f"the daemon stopped; jobs remain ({left}), and treadle up picks them up again"
