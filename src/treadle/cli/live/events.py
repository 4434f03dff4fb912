"""`treadle events`: the event log, newest last, and live with -f."""

from collections.abc import Iterable

import click

from treadle.cli.live.job_selection import complete_jobs, one_job
from treadle.cli.live.session import Session, echo_json_line, json_option, note, session
from treadle.cli.show.clock import clock_text, date_text
from treadle.cli.show.wording import plain
from treadle.wire.machine import EventView

_DAY_S = 86_400


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Follow new events; Ctrl-C quits.")
@click.option("--job", shell_complete=complete_jobs, help="Only events of this job.")
@click.option("--after", type=click.IntRange(0), metavar="ID", help="Only events after this one.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, metavar="N")
@json_option
def events(follow: bool, job: str | None, after: int | None, limit: int, as_json: bool) -> None:
    """Print events, one per line; with --json one object per line."""
    here = session()
    # Ask for the job first: an unknown id is an error, and not a job without events.
    identity = here.client.job(one_job(here, job)).job.id if job is not None else ""
    if after is None:
        page = here.client.events_last(job=identity, limit=limit)
    else:
        page = here.client.events(after=after, job=identity, limit=limit)
    if page.pruned_before:
        note(f"some events before {page.pruned_before} were pruned")
    _print(here, page.events, as_json=as_json)
    if follow:
        try:
            _print(here, here.client.follow_events(after=page.next, job=identity), as_json=as_json)
        except KeyboardInterrupt:
            return


def _print(here: Session, found: Iterable[EventView], *, as_json: bool) -> None:
    for event in found:
        if as_json:
            echo_json_line(event)
        else:
            click.echo(event_line(event, here.now()))


def event_line(event: EventView, now: float) -> str:
    old = now - event.at > _DAY_S
    moment = date_text(event.at) if old else clock_text(event.at)
    job = f"  job {plain(event.job)}" if event.job else ""
    text = f"  {plain(event.text)}" if event.text else ""
    return f"{event.id:>6}  {moment}  {plain(event.kind)}{job}{text}"
