"""`treadle events`: the event log, newest last, and live with -f."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import click

from treadle.cli.live.job_selection import complete_jobs, one_job
from treadle.cli.live.session import Session, echo_json_line, json_option, note, session
from treadle.cli.show.clock import moment_of, moment_text
from treadle.cli.show.wording import plain
from treadle.core.errors import InvalidInputError
from treadle.wire.machine import EventPage, EventView
from treadle.wire.notation import duration

# What the scheduler notes for itself; --all shows it.
# An update by a user is a JobEdited; a JobUpdated comes with it, and with each new estimate.
HIDDEN = ("Decided", "JobProgressed", "JobAccepted", "JobUpdated", "JobsLearned")
PAGE = 1000
PAGES_MAX = 200  # lines are looked through this far back
LIMIT = 50


class Wanted(NamedTuple):
    """Which events to print."""

    everything: bool
    since_at: float | None
    until_at: float | None

    def shows(self, event: EventView) -> bool:
        late = self.until_at is not None and event.at > self.until_at
        early = self.since_at is not None and event.at < self.since_at
        return not late and not early and (self.everything or event.kind not in HIDDEN)


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Follow new events; Ctrl-C quits.")
@click.option("--job", shell_complete=complete_jobs, help="Only events of this job.")
@click.option("--all", "everything", is_flag=True, help="Also decisions and progress.")
@click.option("--since", metavar="2h|DATE", help="Only events since then: 2h, 2026-11-15 09:00.")
@click.option("--until", metavar="1h|DATE", help="Only events until then.")
@click.option("--after", type=click.IntRange(0), metavar="ID", help="Only events after this one.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="The newest N; default: 50, with --since 1000.",
)
@json_option
def events(
    follow: bool,
    job: str | None,
    everything: bool,
    since: str | None,
    until: str | None,
    after: int | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print events, one per line; with --json one object per line."""
    here = session()
    wanted = Wanted(everything, _moment(since, here, "--since"), _moment(until, here, "--until"))
    most = limit or (PAGE if since else LIMIT)
    # Ask for the job first: an unknown id is an error, and not a job without events.
    identity = here.client.job(one_job(here, job)).job.id if job is not None else ""
    if after is None:
        found, upto = _newest(here, identity, wanted, most)
    else:
        page = here.client.events(after=after, job=identity, limit=min(PAGE, most))
        _note_pruned(page)
        found, upto = [event for event in page.events if wanted.shows(event)], page.next
    _print(here, found, as_json=as_json)
    if follow:
        try:
            new = here.client.follow_events(after=upto, job=identity)
            _print(here, (event for event in new if wanted.shows(event)), as_json=as_json)
        except KeyboardInterrupt:
            return


def _note_pruned(page: EventPage) -> None:
    if page.pruned_before:
        note(f"some events before {page.pruned_before} were pruned")


def _newest(here: Session, job: str, wanted: Wanted, most: int) -> tuple[list[EventView], int]:
    """The newest events that are wanted, and the id to go on after."""
    page = here.client.events_last(job=job, limit=PAGE)
    # Events that are missing before the wanted time are not missed.
    if not (page.events and wanted.since_at is not None and page.events[0].at < wanted.since_at):
        _note_pruned(page)
    upto, kept = page.next, [event for event in page.events if wanted.shows(event)]
    for older in _older(here, job, page.events, wanted):
        if len(kept) >= most:
            break
        kept = [event for event in older if wanted.shows(event)] + kept
    return kept[-most:], upto


def _older(
    here: Session, job: str, page: tuple[EventView, ...], wanted: Wanted
) -> Iterator[tuple[EventView, ...]]:
    """Pages of events before these, the newest page first."""
    for _ in range(PAGES_MAX):
        if len(page) < PAGE or page[0].id <= 1:
            return
        if wanted.since_at is not None and page[0].at < wanted.since_at:
            return
        first = page[0].id
        found = here.client.events(after=max(0, first - 1 - PAGE), job=job, limit=PAGE).events
        page = tuple(event for event in found if event.id < first)
        yield page


def _moment(text: str | None, here: Session, option: str) -> float | None:
    """A moment: a date, a time of today, or how long ago."""
    if text is None:
        return None
    found = moment_of(text, here.now())
    if found is not None:
        return found
    try:
        return here.now() - duration(text, option)
    except InvalidInputError:
        raise InvalidInputError(
            f"{option} is {plain(text)!r}; expected a length of time such as 2h, a date such as "
            "2026-11-15, or a date and time such as '2026-11-15 09:00'"
        ) from None


def _print(here: Session, found: Iterable[EventView], *, as_json: bool) -> None:
    for event in found:
        if as_json:
            echo_json_line(event)
        else:
            click.echo(event_line(event, here.now()))


def event_line(event: EventView, now: float) -> str:
    # A text that does not name its job is followed by it.
    named = not event.job or f"job {event.job}" in event.text
    job = "" if named else f" (job {plain(event.job)})"
    return f"{event.id:>6}  {moment_text(event.at, now)}  {plain(event.text or event.kind)}{job}"
