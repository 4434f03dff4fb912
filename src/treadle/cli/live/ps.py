"""`treadle ps`: list jobs with state and reason."""

from typing import TYPE_CHECKING, NamedTuple

import click

from treadle.cli.live.job_columns import (
    JOB_COLUMNS,
    Look,
    chosen_columns,
    chosen_order,
    job_table,
    sweep_table,
)
from treadle.cli.live.job_selection import JOBS_MAX, PAGE, all_jobs, job_or_array
from treadle.cli.live.session import Session, echo_json, json_option, session
from treadle.core.wording import several
from treadle.wire.jobs import JobPage, JobView, State

if TYPE_CHECKING:
    from treadle.client.calls import Which

ROWS = 50
PAGE_MAX = 10_000  # rows in one answer of the server
FETCH_MAX = 2000  # jobs to request at most, to show an array with all members as one row


@click.command()
@click.option("-a", "--ended", is_flag=True, help="Also jobs that have ended.")
@click.option("-A", "--all-users", is_flag=True, help="Jobs of all users.")
@click.option("--all", "everything", is_flag=True, help="Everything: -a and -A together.")
@click.option("-u", "--user", metavar="USER", help="Jobs of this user; default: yours.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only jobs in this state.")
@click.option("--array", default="", metavar="ARRAY", help="The members of this array.")
@click.option("--name", default="", help="Jobs of this name.")
@click.option("--tenant", default="", help="Jobs of this tenant.")
@click.option("--expand", is_flag=True, help="One row per array member.")
@click.option(
    "--limit",
    type=click.IntRange(1, JOBS_MAX),
    metavar="N",
    help="Rows to show; default: 50, with --json all.",
)
@click.option(
    "--sort",
    metavar="COLUMN",
    help="Order rows by this column; -COLUMN: the reverse. Default: scheduling order.",
)
@click.option(
    "--columns",
    metavar="A,B",
    help=f"Columns to show: {', '.join(JOB_COLUMNS)}.",
)
@click.option("-w", "--watch", is_flag=True, help="Update every 2 seconds.")
@json_option
def ps(
    ended: bool,
    all_users: bool,
    everything: bool,
    user: str | None,
    states: tuple[str, ...],
    array: str,
    name: str,
    tenant: str,
    expand: bool,
    limit: int | None,
    sort: str | None,
    columns: str | None,
    watch: bool,
    as_json: bool,
) -> None:
    """List jobs in scheduling order."""
    here = session()
    array = job_or_array(here, array).partition("_")[0] if array else ""
    mine = "" if all_users or everything or array else here.me
    wanted = _states(states)
    look = Look(chosen_columns(columns), *chosen_order(sort))
    which: Which = {
        "states": wanted,
        "user": user or mine,
        "tenant": tenant,
        "array": array,
        "name": name,
        "ended": ended or everything or bool(array) or any(State(state).ended for state in wanted),
    }
    if as_json:
        most = limit or JOBS_MAX
        found = list(all_jobs(here.client, limit=JOBS_MAX if look.sort else most, **which))
        echo_json(JobPage(jobs=tuple(look.ordered(found, here.now())[:most])))
        return
    expand = expand or bool(array or name)
    while True:
        text = _text(here, which, look, expand=expand, limit=limit or ROWS)
        if not watch:
            click.echo(text)
            return
        click.clear()
        click.echo(text)
        here.pause(2.0)


class _Found(NamedTuple):
    views: list[JobView]
    more: bool  # there are jobs beyond the limit
    uncounted: int  # jobs that were not requested


def _text(here: Session, which: "Which", look: Look, *, expand: bool, limit: int) -> str:
    # The rows to show are known only once all jobs are in the wanted order.
    found = _find(here, which, expand=expand, limit=JOBS_MAX if look.sort else limit)
    if not found.views:
        return _nothing(here, which)
    all_users = not which["user"]
    views, cut = _first_rows(look.ordered(found.views, here.now()), expand=expand, limit=limit)
    text, now = "", here.now()
    if look.columns:
        text = look.table(views, now, width=here.width, colour=here.colour)
    elif which["array"] or which["name"]:
        text = sweep_table(views, now, width=here.width, colour=here.colour)
    if not text:
        text = job_table(
            views, now, width=here.width, expand=expand, user=all_users, colour=here.colour
        )
    if found.uncounted:
        more = several(found.uncounted, "more job is", "more jobs are")
        text += f"\n{more} not counted here; --json lists them"
    elif cut or found.more:
        text += f"\nmore jobs follow; --limit {2 * limit} shows more of them"
    elif _plain(which) and (others := _others(here, len(found.views))):
        text += f"\n{others:,} more of other users; treadle ps -A lists them"
    return text


def _find(here: Session, which: "Which", *, expand: bool, limit: int) -> _Found:
    """Jobs for at most `limit` rows, where an array is one row."""
    views: list[JobView] = []
    rows: set[str] = set()
    cursor = ""
    more = False
    # Only where arrays are among the first rows are more jobs asked for than are shown: their other
    # members count.
    whole = min(PAGE_MAX, max(PAGE, limit))
    size = min(whole, limit + 1)
    left = whole - size
    while True:
        page = here.client.job_page(cursor=cursor, limit=size, **which)
        for view in page.jobs:
            row = _row(view, expand=expand)
            if len(rows) >= limit and row not in rows:
                more = True  # Go on: further members of arrays that have a row still count.
                continue
            rows.add(row)
            views.append(view)
        cursor = page.cursor
        complete = not left or rows == {view.id for view in views}
        if (more and complete) or not cursor or not page.jobs:
            return _Found(views, more=more, uncounted=0)
        size, left = left or whole, 0
        if len(views) >= max(FETCH_MAX, limit):
            return _Found(views, more=True, uncounted=max(0, (page.total or 0) - len(views)))


def _first_rows(views: list[JobView], *, expand: bool, limit: int) -> tuple[list[JobView], bool]:
    """The jobs of the first rows, and whether there are more rows."""
    rows = dict.fromkeys(_row(view, expand=expand) for view in views)
    shown = set(list(rows)[:limit])
    return [view for view in views if _row(view, expand=expand) in shown], len(rows) > limit


def _row(view: JobView, *, expand: bool) -> str:
    """The row of a job; an array has one row unless it is expanded."""
    return view.id if expand or not view.array else f"array {view.array}"


def _plain(which: "Which") -> bool:
    """Whether this is the plain listing of one user's jobs, without filters."""
    return bool(which["user"]) and not _narrowed(which)


def _narrowed(which: "Which") -> bool:
    return any(value for key, value in which.items() if key != "user")


def _others(here: Session, mine: int) -> int:
    """The number of active jobs of other users; about, since jobs come and go between answers."""
    return max(0, (here.client.job_page(limit=1).total or 0) - mine)


def _nothing(here: Session, which: "Which") -> str:
    if _narrowed(which):
        return "no such jobs"
    if _plain(which) and (others := _others(here, 0)):
        return f"no jobs of {which['user']}; {others:,} of others (treadle ps -A)"
    return "no jobs; treadle submit -- python train.py submits one, treadle ps -a lists ended jobs"


def _states(words: tuple[str, ...]) -> tuple[str, ...]:
    """Job states by name, in any case, separated by commas."""
    names = [part.strip().upper() for word in words for part in word.split(",") if part.strip()]
    for name in names:
        if name not in State.__members__:
            known = ", ".join(state.value.lower() for state in State)
            raise click.UsageError(f"there is no state {name.lower()!r} (known: {known})")
    return tuple(names)
