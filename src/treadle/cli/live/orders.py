"""`treadle cancel`, `hold`, `release` and `priority`: change jobs by id, name or array."""

from collections.abc import Callable, Sequence

import click

from treadle.cli.live.job_selection import confirm, jobs_argument, many_jobs, whole, yes_option
from treadle.cli.live.log_following import NeverRuns
from treadle.cli.live.session import Session, note, session
from treadle.cli.show.wording import plain
from treadle.core.errors import TreadleError
from treadle.core.wording import several
from treadle.wire.jobs import JobChange, JobView, State
from treadle.wire.notation import priority as read_priority

Order = Callable[[str], tuple[JobView, ...]]


@click.command()
@jobs_argument
@yes_option
def cancel(jobs: tuple[str, ...], yes: bool) -> int:
    """Cancel JOBS (ids, names or arrays): stop signal, grace period, then kill."""
    here = session()
    return _each(here, jobs, "cancel", here.client.cancel, yes=yes)


@click.command()
@jobs_argument
@yes_option
def hold(jobs: tuple[str, ...], yes: bool) -> int:
    """Hold waiting JOBS: they do not start until they are released."""
    here = session()
    return _each(here, jobs, "hold", here.client.hold, yes=yes)


@click.command()
@jobs_argument
@yes_option
def release(jobs: tuple[str, ...], yes: bool) -> int:
    """Release held JOBS: they may start again."""
    here = session()
    return _each(here, jobs, "release", here.client.release, yes=yes)


@click.command(context_settings={"ignore_unknown_options": True})  # -5 is a priority
@jobs_argument
@click.argument("level", metavar="LEVEL")
@yes_option
def priority(jobs: tuple[str, ...], level: str, yes: bool) -> int:
    """Set the priority of JOBS to LEVEL: an integer, or low, normal, high, urgent."""
    here = session()
    change = JobChange(priority=read_priority(level))

    def order(identity: str) -> tuple[JobView, ...]:
        return (here.client.change(identity, change),)

    return _each(here, jobs, "change", order, yes=yes, members=True)


# verb -> (past tense, the expected new state, which is not printed)
_DONE = {
    "cancel": ("cancelled", State.CANCELLED),
    "hold": ("held", State.HELD),
    "release": ("released", State.PENDING),
    "change": ("changed", None),
}


def _each(
    here: Session,
    words: tuple[str, ...],
    verb: str,
    order: Order,
    *,
    yes: bool,
    members: bool = False,
) -> int:
    """Give the order for each word; a refusal does not stop the others."""
    meant: dict[str, list[JobView]] = {}
    refused: TreadleError | None = None
    for word in words:
        try:
            meant[word] = many_jobs(here, word, ended=False)
        except TreadleError as error:
            refused = _first(refused, error, alone=len(words) == 1)
    views = [view for found in meant.values() for view in found]
    if not confirm(here, verb, views, yes=yes):
        note("nothing was changed")
        return 1
    for word, found in meant.items():
        wanted = _held(here, word, found) if verb == "release" else found
        for identity in [view.id for view in wanted] if members else whole(here, word, wanted):
            try:
                changed = order(identity)
            except TreadleError as error:
                refused = _first(refused, error, alone=len(views) == 1)
            else:
                click.echo(_sentence(identity, changed, verb))
                _unsettled(changed)
                if verb == "hold":
                    _left_running(identity, found, changed)
    if refused is not None:
        raise refused
    return 0


def _first(first: TreadleError | None, error: TreadleError, *, alone: bool) -> TreadleError:
    """The first refusal is raised once everything was tried; further ones are printed now."""
    if first is None or alone:
        return error
    note(plain(str(error)))
    return first


def _is_held(here: Session, view: JobView) -> bool:
    """Held by its user, or because a job that it should start after has failed."""
    if view.cause == "dependency":
        return bool(NeverRuns(here).reason(view))
    # A limit of its array holds it too, and no release ends that.
    return view.cause == "held" or (view.state is State.HELD and view.cause != "array")


def _held(here: Session, word: str, views: Sequence[JobView]) -> list[JobView]:
    """The jobs that can be released, an array as a whole; for the others, print why not."""
    kept = {view.id: view.array for view in views if _is_held(here, view)}
    arrays = {array for array in kept.values() if array}
    held = [view for view in views if view.id in kept or view.array in arrays]
    if not held and len(views) > 1:
        click.echo(f"none of the {several(len(views), 'job')} of {plain(word)} is held")
        return []
    for view in views:
        if view not in held:
            name = f" ({plain(view.name)})" if view.name else ""
            state = f"is not held, it is {view.state.value}"
            if view.state is State.HELD:  # by the jobs that it starts after
                state = f"is not held by its user: {plain(view.because)}"
            click.echo(f"job {plain(view.id)}{name} {state}")
    return held


def _unsettled(changed: Sequence[JobView]) -> None:
    """Say what is kept in memory only."""
    said = [view.because for view in changed if view.cause == "unsettled"]
    if said:
        note(plain(said[0]))


def _left_running(identity: str, views: Sequence[JobView], changed: Sequence[JobView]) -> None:
    """Say which members of an array were not held."""
    held = {view.id for view in changed}
    left = [view.id for view in views if view.array == identity and view.id not in held]
    if left:
        listed = ", ".join(plain(name) for name in left[:5]) + (", ..." if len(left) > 5 else "")
        many = "job runs and cannot" if len(left) == 1 else "jobs run and cannot"
        note(f"not held: {listed}; {len(left):,} {many} resume, so holding would lose work")


def _sentence(identity: str, changed: tuple[JobView, ...], verb: str) -> str:
    done, expected = _DONE[verb]
    if len(changed) == 1:
        view = changed[0]
        name = f" ({plain(view.name)})" if view.name else ""
        level = f": priority {view.priority}" if verb == "change" else ""
        state = f", now {view.state.value}" if expected and view.state is not expected else ""
        return f"job {plain(view.id)}{name} {done}{level}{state}"
    if not changed:
        return f"none of the jobs of {plain(identity)} is {'held' if verb == 'release' else done}"
    return f"{several(len(changed), 'job')} of {plain(identity)} {done}"
