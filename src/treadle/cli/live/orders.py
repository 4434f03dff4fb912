"""`treadle cancel`, `hold`, `release`, `priority`, `update`: change jobs by id, name or array."""

from collections.abc import Callable, Sequence

import click

from treadle.cli.live.job_selection import confirm, jobs_argument, many_jobs, whole, yes_option
from treadle.cli.live.log_following import NeverRuns
from treadle.cli.live.session import Session, echo_json, json_option, note, session
from treadle.cli.show.wording import plain
from treadle.core.errors import TreadleError
from treadle.core.wording import several
from treadle.wire.jobs import JobChange, JobView, State
from treadle.wire.notation import devices as read_devices
from treadle.wire.notation import duration
from treadle.wire.notation import priority as read_priority

Order = Callable[[str], tuple[JobView, ...]]


@click.command()
@jobs_argument
@yes_option
@json_option
def cancel(jobs: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Cancel JOBS (ids, names or arrays): stop signal, grace period, then kill."""
    here = session()
    return _each(here, jobs, "cancel", here.client.cancel, yes=yes, as_json=as_json)


@click.command()
@jobs_argument
@yes_option
@json_option
def hold(jobs: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Hold waiting JOBS: they do not start until they are released."""
    here = session()
    return _each(here, jobs, "hold", here.client.hold, yes=yes, as_json=as_json)


@click.command()
@jobs_argument
@yes_option
@json_option
def release(jobs: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Release held JOBS: they may start again."""
    here = session()
    return _each(here, jobs, "release", here.client.release, yes=yes, as_json=as_json)


@click.command(context_settings={"ignore_unknown_options": True})  # -5 is a priority
@jobs_argument
@click.argument("level", metavar="LEVEL")
@yes_option
@json_option
def priority(jobs: tuple[str, ...], level: str, yes: bool, as_json: bool) -> int:
    """Set the priority of JOBS to LEVEL: an integer, or low, normal, high, urgent."""
    here = session()
    change = JobChange(priority=read_priority(level))
    return _change(here, jobs, change, yes=yes, as_json=as_json)


@click.command()
@jobs_argument
@click.option("-n", "--name", help="New name.")
@click.option("-t", "--time-limit", metavar="12h", help="New limit of the running time.")
@click.option("-p", "--priority", "level", metavar="N|low|normal|high|urgent", help="New priority.")
@click.option("-d", "--devices", metavar="4|2..8|1,2,4", help="New devices, of a waiting job.")
@click.option("--tenant", help="New tenant, of a waiting job.")
@yes_option
@json_option
def update(
    jobs: tuple[str, ...],
    name: str | None,
    time_limit: str | None,
    level: str | None,
    devices: str | None,
    tenant: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Change JOBS that have not ended: name, time limit, priority, devices, tenant.

    Devices and tenant can be changed only while a job waits.
    """
    change = JobChange(
        priority=None if level is None else read_priority(level, "--priority"),
        time_limit_s=None if time_limit is None else duration(time_limit, "--time-limit"),
        name=name,
        devices=None if devices is None else read_devices(devices, "--devices"),
        tenant=tenant,
    )
    if change == JobChange():
        raise click.UsageError("nothing to change; give --name, --time-limit, --devices, ...")
    return _change(session(), jobs, change, yes=yes, as_json=as_json)


def _change(
    here: Session, jobs: tuple[str, ...], change: JobChange, *, yes: bool, as_json: bool
) -> int:
    def order(identity: str) -> tuple[JobView, ...]:
        return (here.client.change(identity, change),)

    if change == JobChange(priority=change.priority):
        return _each(here, jobs, "change", order, yes=yes, members=True, as_json=as_json)
    return _each(here, jobs, "update", order, yes=yes, members=True, as_json=as_json)


# verb -> (past tense, the expected new state, which is not printed)
_DONE = {
    "cancel": ("cancelled", State.CANCELLED),
    "hold": ("held", State.HELD),
    "release": ("released", State.PENDING),
    "change": ("changed", None),
    "update": ("updated", None),
}


def _each(
    here: Session,
    words: tuple[str, ...],
    verb: str,
    order: Order,
    *,
    yes: bool,
    members: bool = False,
    as_json: bool = False,
) -> int:
    """Give the order for each word; a refusal does not stop the others."""
    meant: dict[str, list[JobView]] = {}
    answers: list[JobView] = []
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
        wanted = _held(here, word, found, quiet=as_json) if verb == "release" else found
        for identity in [view.id for view in wanted] if members else whole(here, word, wanted):
            try:
                changed = order(identity)
            except TreadleError as error:
                refused = _first(refused, error, alone=len(views) == 1)
                continue
            answers += changed
            _say(identity, found, changed, verb, quiet=as_json)
    if as_json:
        echo_json(answers)
    if refused is not None:
        raise refused
    return 0


def _say(
    identity: str,
    found: Sequence[JobView],
    changed: tuple[JobView, ...],
    verb: str,
    *,
    quiet: bool,
) -> None:
    if not quiet:
        click.echo(_sentence(identity, changed, verb))
    if verb == "hold":
        _left_running(identity, found, changed)


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


def _held(here: Session, word: str, views: Sequence[JobView], *, quiet: bool) -> list[JobView]:
    """The jobs that can be released, an array as a whole; for the others, print why not."""
    kept = {view.id: view.array for view in views if _is_held(here, view)}
    arrays = {array for array in kept.values() if array}
    held = [view for view in views if view.id in kept or view.array in arrays]
    if quiet:
        return held
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
