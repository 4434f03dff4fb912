"""Which jobs are meant: by id, by name, or a whole array; and completion in the shell."""

import re
from collections.abc import Iterator, Sequence

import click
from click.shell_completion import CompletionItem

from weft.cli.desk import ClientPort, Desk
from weft.cli.wording import plain, several
from weft.core.errors import InvalidInputError, WeftError
from weft.wire.jobs import JobView
from weft.wire.problems import NotFoundError

PAGE = 500
JOBS_MAX = 20_000
_IDENTITY = re.compile(r"[0-9]{1,12}(_[0-9]{1,9})?", re.ASCII)


def is_identity(word: str) -> bool:
    return bool(_IDENTITY.fullmatch(word))


def all_jobs(client: ClientPort, *, limit: int = JOBS_MAX, **which: object) -> Iterator[JobView]:
    """The jobs of all pages, up to a limit."""
    cursor = ""
    left = limit
    while left > 0:
        page = client.job_page(cursor=cursor, limit=min(PAGE, left), **which)  # type: ignore[arg-type]
        yield from page.jobs
        left -= len(page.jobs)
        cursor = page.cursor
        if not cursor or not page.jobs:
            return


def one_job(client: ClientPort, word: str) -> str:
    """The id of the one job that is meant; of several of that name, the one not yet ended."""
    if is_identity(word):
        if "_" not in word and client.job_page(array=word, ended=True, limit=1).jobs:
            raise InvalidInputError(
                f"{word} is an array; say which of its jobs, such as {word}_0 "
                f"(weft ps --array {word} lists them)"
            )
        return word
    found = list(all_jobs(client, name=word, ended=True, limit=PAGE))
    if not found:
        return word  # The daemon says that it does not know it.
    active = [view for view in found if not view.state.ended]
    if len(active) > 1:
        listed = ", ".join(view.id for view in active[:5]) + (", ..." if len(active) > 5 else "")
        raise InvalidInputError(
            f"{plain(word)} is the name of {several(len(active), 'job')} ({listed}); "
            "say which by id"
        )
    return (active or [max(found, key=lambda view: view.submitted_at)])[0].id


def many_jobs(client: ClientPort, word: str, *, ended: bool) -> list[JobView]:
    """All jobs that are meant: one by its id, all of that name, or an array's in their order."""
    if is_identity(word):
        members = list(all_jobs(client, array=word, ended=ended)) if "_" not in word else []
        members.sort(key=lambda view: view.index or 0)
        return members or [client.job(word).job]
    found = list(all_jobs(client, name=word, ended=ended))
    if not found:
        raise NotFoundError(f"no job has the id or name {plain(word)}; weft ps -a lists them")
    return found


def confirm(desk: Desk, verb: str, views: Sequence[JobView], *, yes: bool) -> bool:
    """Whether to go on; more than one job is asked about, where there is somebody to ask."""
    if yes or len(views) < 2 or not desk.interactive:
        return True
    return click.confirm(f"{verb} {several(len(views), 'job')}?")


def complete_jobs(
    context: click.Context,
    parameter: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """Live ids and names; a daemon that does not answer completes nothing."""
    found = context.find_object(Desk) or Desk()
    try:
        views = found.client.job_page(limit=100).jobs
    except (WeftError, OSError):
        return []
    ids = [(view.id, plain(view.name)) for view in views]
    ids += [(view.array, "array") for view in views if view.array]
    names = [(view.name, view.id) for view in views if view.name.isprintable()]
    offered = dict(reversed([*ids, *names]))
    return [
        CompletionItem(word, help=told)
        for word, told in reversed(offered.items())
        if word and word.startswith(incomplete)
    ]


job_argument = click.argument("job", shell_complete=complete_jobs)
jobs_argument = click.argument("jobs", nargs=-1, required=True, shell_complete=complete_jobs)
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask, even for many jobs.")
