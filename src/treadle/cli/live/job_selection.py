"""Select jobs by id, name or array; and complete them in the shell."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Unpack

import click
from click.shell_completion import CompletionItem

from treadle.cli.live.session import Session
from treadle.cli.show.wording import plain
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.wording import several
from treadle.wire.jobs import JobView
from treadle.wire.notation import is_identity
from treadle.wire.problems import ConflictError, NotFoundError

if TYPE_CHECKING:
    from treadle.client import Client
    from treadle.client.calls import Which

PAGE = 500
JOBS_MAX = 20_000
FEW = 5  # so many words are looked up one by one
LISTED = 10_000  # jobs of one page, to look up many words


def all_jobs(
    client: "Client", *, limit: int = JOBS_MAX, **which: "Unpack[Which]"
) -> Iterator[JobView]:
    """The jobs of all pages, up to a limit."""
    return islice(client.jobs(page=min(PAGE, limit), **which), limit)


def own_jobs(here: Session, name: str, *, ended: bool, limit: int = JOBS_MAX) -> list[JobView]:
    """The caller's jobs of that name; other users may have jobs of the same name.

    Over the network the caller's name is unknown, so jobs of several users are refused.
    """
    if not name:
        raise InvalidInputError("the job's id or name is empty; treadle ps -a lists them")
    mine = here.me
    found = list(all_jobs(here.client, name=name, user=mine, ended=ended, limit=limit))
    if mine and not found:
        _refuse_others(here, name, ended=ended)
    owners = sorted({view.user for view in found})
    if len(owners) > 1:
        raise InvalidInputError(
            f"{plain(name)} is the name of jobs of {plain(owners[0])} and {plain(owners[1])}; "
            "use an id"
        )
    return found


def _refuse_others(here: Session, name: str, *, ended: bool) -> None:
    others = here.client.job_page(name=name, ended=ended, limit=1).jobs
    if others:
        first = others[0]
        raise NotFoundError(
            f"no job of yours has the name {plain(name)}, but job {plain(first.id)} of "
            f"{plain(first.user)} has; use its id to select it"
        )


def one_job(here: Session, word: str) -> str:
    """The id of one job; of several with that name, the one that has not ended."""
    if is_identity(word) and "_" not in word:
        found = list(here.client.job_page(array=word, ended=True, limit=1).jobs)
        if found:
            raise _array(f"{word} is an array", found)
    meant, members = _meant(here, word)
    if members:
        raise _array(f"{plain(word)} is the name of array {members[0].array}", members)
    return meant


def job_or_array(here: Session, word: str) -> str:
    """The id of one job or of one array."""
    return _meant(here, word)[0]


def _meant(here: Session, word: str) -> tuple[str, list[JobView]]:
    """The id of a job or an array, and if its name is that of an array, its members."""
    if is_identity(word):
        return word, []
    found = own_jobs(here, word, ended=True, limit=PAGE)
    if not found:
        raise _unknown(word)
    meant = _active_or_newest(found)
    members = [view for view in found if view.array and view.array == meant[0].array]
    if len(members) > 1 and all(view.array == meant[0].array for view in meant):
        return meant[0].array, members
    if len(meant) > 1:
        # What was read is one page; the server counts all.
        total = here.client.job_page(name=word, user=here.me, limit=1).total
        raise _several(word, [view.id for view in meant], count=total or 0)
    return meant[0].id, []


def _unknown(word: str) -> NotFoundError:
    return NotFoundError(f"no job has the id or name {plain(word)}; treadle ps -a lists them")


def _several(word: str, ids: Sequence[str], *, count: int) -> InvalidInputError:
    listed = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
    jobs = several(max(count, len(ids)), "job")
    return InvalidInputError(f"{plain(word)} is the name of {jobs} ({listed}); use an id")


def _array(head: str, members: Sequence[JobView]) -> InvalidInputError:
    first = min(members, key=lambda view: view.index or 0)
    return InvalidInputError(
        f"{head}; name one of its jobs, such as {first.id} "
        f"(treadle ps --array {first.array} lists them)"
    )


def _ended(word: str, views: Sequence[JobView]) -> ConflictError:
    """The order comes too late."""
    newest = max(views, key=lambda view: view.submitted_at)
    arrays = {view.array for view in views}
    if len(views) > 1 and arrays == {newest.array} and newest.array:
        name = "" if word == newest.array else f" ({plain(word)})"
        return ConflictError(f"array {newest.array}{name} has ended already")
    name = f" ({plain(newest.name)})" if newest.name else ""
    return ConflictError(f"job {newest.id}{name} has ended already ({newest.state.value.lower()})")


def many_jobs(here: Session, word: str, *, ended: bool) -> list[JobView]:
    """All jobs for a word: one by its id, or the members of an array in order, or by a name.

    A name means the active jobs that have it. If all have ended and `ended` is set, it means the
    newest one, as in `one_job`: the name may have been used before, for jobs of another day.
    """
    if is_identity(word):
        members = list(all_jobs(here.client, array=word, ended=ended)) if "_" not in word else []
        members.sort(key=lambda view: view.index or 0)
        if not members and not ended and "_" not in word:
            gone = here.client.job_page(array=word, ended=True, limit=2).jobs
            if gone:
                raise _ended(word, gone)
        return members or [here.client.job(word).job]
    found = own_jobs(here, word, ended=ended)
    if not found:
        over = [] if ended else own_jobs(here, word, ended=True, limit=PAGE)
        raise _ended(word, over) if over else _unknown(word)
    return _newest(found) if ended else found


def _active_or_newest(found: Sequence[JobView]) -> list[JobView]:
    """What a name means: the active jobs that have it, or else the newest."""
    active = [view for view in found if not view.state.ended]
    return active or [max(found, key=lambda view: view.submitted_at)]


def _newest(found: Sequence[JobView]) -> list[JobView]:
    """The active jobs, or else the newest; of an array all members, in order."""
    meant = _active_or_newest(found)
    groups = dict.fromkeys(view.array or view.id for view in meant)
    members = sorted(found, key=lambda view: view.index or 0)
    return [view for group in groups for view in members if (view.array or view.id) == group]


@dataclass(frozen=True, slots=True)
class Listing:
    """Active jobs by id and by array, so that many ids take a few requests and not one each."""

    here: Session
    by_id: Mapping[str, JobView] | None  # None: few words, which are looked up one by one
    by_array: Mapping[str, list[JobView]]

    @classmethod
    def of(cls, here: Session, words: Sequence[str]) -> "Listing":
        if len(words) <= FEW:
            return cls(here, None, {})
        page = here.client.job_page(limit=LISTED)
        views = {view.id: view for view in page.jobs}
        while page.cursor:
            page = here.client.job_page(cursor=page.cursor, limit=LISTED)
            views |= {view.id: view for view in page.jobs}
        arrays: dict[str, list[JobView]] = {}
        for view in views.values():
            if view.array:
                arrays.setdefault(view.array, []).append(view)
        return cls(here, views, arrays)

    def jobs(self, word: str) -> list[JobView]:
        """As `many_jobs` of active jobs; none for an id that is not in the list."""
        if self.by_id is None or not is_identity(word):
            return many_jobs(self.here, word, ended=False)
        members = sorted(self.by_array.get(word, ()), key=lambda view: view.index or 0)
        return members or ([self.by_id[word]] if word in self.by_id else [])


def whole(here: Session, word: str, views: Sequence[JobView]) -> list[str]:
    """The ids to send an order for; an array that is selected as a whole is one id."""
    if is_identity(word):
        return [word] if views else []
    counts = Counter(view.array for view in views if view.array)
    entire = {
        array
        for array, count in counts.items()
        # A member may have been renamed.
        if count == sum(1 for _ in all_jobs(here.client, array=array, ended=False))
    }
    return list(dict.fromkeys(view.array if view.array in entire else view.id for view in views))


def confirm(session: Session, verb: str, views: Sequence[JobView], *, yes: bool) -> bool:
    """Ask before an order for more than one job, if there is a terminal to ask on."""
    if yes or len(views) < 2 or not session.interactive:
        return True
    return click.confirm(f"{verb} {several(len(views), 'job')}?")


def complete_jobs(
    context: click.Context,
    parameter: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """Ids and names of active jobs; none if the daemon does not answer."""
    found = context.find_object(Session) or Session()
    try:
        views = found.client.job_page(limit=100).jobs
    except (TreadleError, OSError):
        return []
    ids = [(view.id, plain(view.name)) for view in views]
    ids += [(view.array, "array") for view in views if view.array]
    names = [(view.name, view.id) for view in views if view.name.isprintable()]
    offered = dict(reversed([*ids, *names]))
    return [
        CompletionItem(word, help=text)
        for word, text in reversed(offered.items())
        if word and word.startswith(incomplete)
    ]


job_argument = click.argument("job", shell_complete=complete_jobs)
jobs_argument = click.argument("jobs", nargs=-1, required=True, shell_complete=complete_jobs)
yes_option = click.option(
    "-y", "--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked."
)
