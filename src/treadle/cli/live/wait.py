"""`treadle wait`: return when jobs have ended, with the exit code of `exit_codes.py`."""

from collections.abc import Mapping
from typing import NamedTuple

import click

from treadle.cli.live.exit_codes import NOT_ENDED, end_sentence, first_bad
from treadle.cli.live.job_selection import jobs_argument, many_jobs
from treadle.cli.live.log_following import AWAY, LONGEST_S, SHORTEST_S, NeverRuns, Patience
from treadle.cli.live.session import Session, echo_json, json_option, note, session
from treadle.cli.show.wording import plain
from treadle.core.wording import several
from treadle.wire.jobs import JobView
from treadle.wire.notation import duration


@click.command()
@jobs_argument
@click.option("--timeout", metavar="10m", help="Stop waiting after this time, with exit code 101.")
@json_option
def wait(jobs: tuple[str, ...], timeout: str | None, as_json: bool) -> int:
    """Wait until JOBS have ended; exit as the first one that did not succeed."""
    here = session()
    limit_s = None if timeout is None else duration(timeout, "--timeout")
    views = [view for word in jobs for view in many_jobs(here, word, ended=True)]
    found = until_ended(here, views, limit_s=limit_s)
    if as_json:
        echo_json([*found.ended, *found.left])
    else:
        for view in found.ended:
            click.echo(found.sentence(view))
    if found.left:
        left = found.left
        shown = ", ".join(plain(view.id) for view in left[:5]) + (", ..." if len(left) > 5 else "")
        note(f"{several(len(left), 'job')} not ended yet: {shown}")
        return found.code or NOT_ENDED
    return found.code


class Awaited(NamedTuple):
    """The outcome of jobs, in the given order; `ended` includes those that can never run."""

    ended: list[JobView]
    left: list[JobView]
    never: dict[str, str]  # id -> why the job can never run

    @property
    def code(self) -> int:
        return first_bad(self.ended, self.never)

    def sentence(self, view: JobView) -> str:
        if view.id not in self.never:
            return end_sentence(view)
        name = f" ({plain(view.name)})" if view.name else ""
        return f"job {plain(view.id)}{name} {self.never[view.id]}"


def until_ended(here: Session, views: list[JobView], *, limit_s: float | None = None) -> Awaited:
    """Wait until all jobs have ended or can never run, or the time is over."""
    begun_s = here.stopwatch()
    pause_s = SHORTEST_S
    patience = Patience(here)
    never_runs = NeverRuns(here)
    now = {view.id: view for view in views}
    never: dict[str, str] = {}
    for view in views:
        # One after the other: all must end anyway, and a job that has ended takes no waiting.
        while not now[view.id].state.ended and view.id not in never:
            try:
                now[view.id] = here.client.job(view.id).job
                if reason := never_runs.reason(now[view.id]):
                    never[view.id] = reason
                patience.answered()
            except AWAY as error:
                patience.away(error)
            if now[view.id].state.ended or view.id in never:
                pause_s = SHORTEST_S
                break
            if limit_s is not None and here.stopwatch() - begun_s >= limit_s:
                return _sorted(now, never)
            here.pause(pause_s)
            pause_s = min(LONGEST_S, 1.5 * pause_s)
    return _sorted(now, never)


def _sorted(now: Mapping[str, JobView], never: dict[str, str]) -> Awaited:
    ended = [view for view in now.values() if view.state.ended or view.id in never]
    left = [view for view in now.values() if not view.state.ended and view.id not in never]
    return Awaited(ended, left, never)
