"""`weft wait`: return when jobs have ended, with an exit code that says how.

The codes are those of `ends.py`.
"""

import click

from weft.cli.choosing import jobs_argument, many_jobs
from weft.cli.desk import Desk, desk, echo_json, json_option, note
from weft.cli.ends import NOT_ENDED, end_sentence, first_bad
from weft.cli.following import LONGEST_S, SHORTEST_S, Patience
from weft.cli.wording import plain, several
from weft.client.errors import NoAnswerError, UnreachableError
from weft.wire.jobs import JobView
from weft.wire.notation import duration


@click.command()
@jobs_argument
@click.option("--timeout", metavar="10m", help="Give up after this time, with exit code 101.")
@json_option
def wait(jobs: tuple[str, ...], timeout: str | None, as_json: bool) -> int:
    """Wait until JOBS have ended; the exit code is that of the first that did not succeed."""
    here = desk()
    limit_s = None if timeout is None else duration(timeout, "--timeout")
    views = [view for word in jobs for view in many_jobs(here.client, word, ended=True)]
    ended, left = until_ended(here, views, limit_s=limit_s)
    if as_json:
        echo_json([*ended, *left])
    else:
        for view in ended:
            click.echo(end_sentence(view))
    if left:
        shown = ", ".join(plain(view.id) for view in left[:5]) + (", ..." if len(left) > 5 else "")
        note(f"{several(len(left), 'job')} not ended yet: {shown}")
        return first_bad(ended) or NOT_ENDED
    return first_bad(ended)


def until_ended(
    here: Desk, views: list[JobView], *, limit_s: float | None = None
) -> tuple[list[JobView], list[JobView]]:
    """Those that ended, in the order given, and those that had not when the time was over."""
    begun_s = here.stopwatch()
    pause_s = SHORTEST_S
    patience = Patience(here)
    now = {view.id: view for view in views}
    for view in views:
        # One after the other: all must end anyway, and whoever ended meanwhile is seen at once.
        while not now[view.id].state.ended:
            try:
                now[view.id] = here.client.job(view.id).job
                patience.answered()
            except (UnreachableError, NoAnswerError) as error:
                patience.away(error)
            if now[view.id].state.ended:
                pause_s = SHORTEST_S
                break
            if limit_s is not None and here.stopwatch() - begun_s >= limit_s:
                found = list(now.values())
                ended = [each for each in found if each.state.ended]
                return ended, [each for each in found if not each.state.ended]
            here.pause(pause_s)
            pause_s = min(LONGEST_S, 1.5 * pause_s)
    return list(now.values()), []
