"""`treadle cancel`, `hold`, `pause`, `priority` ...: change jobs by id, name or array."""

from collections.abc import Sequence
from dataclasses import replace

import click

from treadle.cli.live.job_selection import (
    Listing,
    complete_jobs,
    confirm,
    jobs_argument,
    whole,
    yes_option,
)
from treadle.cli.live.session import Session, echo_json, json_option, note, session
from treadle.cli.show.wording import plain
from treadle.core.allocation import Pause
from treadle.core.errors import TreadleError
from treadle.core.wording import several
from treadle.wire.job_orders import JobOutcome, JobSelection, JobsOrder, Verb, refusal_of
from treadle.wire.jobs import JobChange, JobView, State
from treadle.wire.notation import devices as read_devices
from treadle.wire.notation import duration, is_identity, job_name
from treadle.wire.notation import priority as read_priority
from treadle.wire.problems import UnavailableError

mine_option = click.option(
    "--mine", is_flag=True, help="All of your jobs that have not ended, instead of JOBS."
)
some_jobs_argument = click.argument("jobs", nargs=-1, shell_complete=complete_jobs)


def _for_jobs(verb: Verb, help_: str) -> click.Command:
    """A command that gives an order for some jobs."""

    @click.command(verb.value, help=help_)
    @some_jobs_argument
    @mine_option
    @yes_option
    @json_option
    def command(jobs: tuple[str, ...], mine: bool, yes: bool, as_json: bool) -> int:
        return _Order(session(), verb, as_json=as_json).give(jobs, mine=mine, yes=yes)

    return command


cancel = _for_jobs(
    Verb.CANCEL, "Cancel JOBS (ids, names or arrays): stop signal, grace period, then kill."
)
hold = _for_jobs(
    Verb.HOLD,
    """Hold JOBS: none of them runs until it is released.

    A job that runs is paused, or stopped if it cannot be paused and keeps checkpoints.""",
)
release = _for_jobs(Verb.RELEASE, "Release held JOBS: they may start again.")
resume = _for_jobs(Verb.RESUME, "Let paused JOBS go on, once their devices are free.")


@click.command()
@some_jobs_argument
@click.option("--suspend", is_flag=True, help="Their GPU memory moves to the host's meanwhile.")
@mine_option
@yes_option
@json_option
def pause(jobs: tuple[str, ...], suspend: bool, mine: bool, yes: bool, as_json: bool) -> int:
    """Pause running JOBS: they stand still, and others may use their devices.

    They go on where they were after `treadle resume`, once their devices are free. Nothing is
    lost. Waiting jobs are held.
    """
    how = Pause.SUSPENDED if suspend else Pause.FROZEN
    order = _Order(session(), Verb.PAUSE, how=how, as_json=as_json)
    return order.give(jobs, mine=mine, yes=yes)


@click.command(context_settings={"ignore_unknown_options": True})  # -5 is a priority
@jobs_argument
@click.argument("level", metavar="LEVEL")
@yes_option
@json_option
def priority(jobs: tuple[str, ...], level: str, yes: bool, as_json: bool) -> int:
    """Set the priority of JOBS to LEVEL: an integer, or low, normal, high, urgent."""
    change = JobChange(priority=read_priority(level))
    return _Order(session(), Verb.CHANGE, change, as_json=as_json).give(jobs, mine=False, yes=yes)


@click.command()
@some_jobs_argument
@click.option("-n", "--name", help="New name.")
@click.option("-t", "--time-limit", metavar="12h", help="New time limit, of a waiting job.")
@click.option("-p", "--priority", "level", metavar="N|low|normal|high|urgent", help="New priority.")
@click.option("-d", "--devices", metavar="4|2..8|1,2,4", help="New devices, of a waiting job.")
@click.option("--tenant", help="New tenant, of a waiting job.")
@mine_option
@yes_option
@json_option
def update(
    jobs: tuple[str, ...],
    name: str | None,
    time_limit: str | None,
    level: str | None,
    devices: str | None,
    tenant: str | None,
    mine: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Change JOBS that have not ended: name, time limit, priority, devices, tenant.

    Time limit, devices and tenant can be changed only while a job waits.
    """
    change = JobChange(
        priority=None if level is None else read_priority(level, "--priority"),
        time_limit_s=None if time_limit is None else duration(time_limit, "--time-limit"),
        name=None if name is None else job_name(name, "--name"),
        devices=None if devices is None else read_devices(devices, "--devices"),
        tenant=tenant,
    )
    if change == JobChange():
        raise click.UsageError(
            "nothing to change; give --name, --time-limit, --priority, --devices or --tenant"
        )
    return _Order(session(), Verb.CHANGE, change, as_json=as_json).give(jobs, mine=mine, yes=yes)


# verb -> (past tense, the state that it is said with and need not be printed)
_DONE = {
    Verb.CANCEL: ("cancelled", State.CANCELLED),
    Verb.HOLD: ("held", State.HELD),
    Verb.RELEASE: ("released", State.PENDING),
    Verb.PAUSE: ("paused", State.PAUSED),
    Verb.RESUME: ("resumed", State.STARTING),
    Verb.CHANGE: ("changed", None),
}
_NOW = {
    State.PENDING: "waits",
    State.HELD: "is held",
    State.STARTING: "is starting",
    State.RUNNING: "runs",
    State.RESIZING: "is being resized",
    State.PAUSED: "is paused",
    State.STOPPING: "is stopping",
}
_SAYS_WHY = (State.PENDING, State.HELD, State.PAUSED)


_LEAVES_SOME = (Verb.HOLD, Verb.PAUSE)
_NONE_IS = {Verb.RELEASE: "held", Verb.RESUME: "paused"}


class _Order:
    """One order for many jobs: a refusal for one of them does not stop the others."""

    def __init__(
        self,
        here: Session,
        verb: Verb,
        change: JobChange | None = None,
        *,
        how: Pause = Pause.FROZEN,
        as_json: bool,
    ) -> None:
        self._here = here
        self._verb = verb
        self._change = change
        self._how = how
        self._as_json = as_json
        self._refused: TreadleError | None = None

    def give(self, words: tuple[str, ...], *, mine: bool, yes: bool) -> int:
        if bool(words) == mine:
            raise click.UsageError("name JOBS, or --mine for all of yours")
        if mine:
            words = self._mine()
            if not words:
                note("you have no job that has not ended")
                return 0
        meant = self._meant(words)
        views = [view for found in meant.values() for view in found]
        if not confirm(self._here, self._verb.value, views, yes=yes):
            note("nothing was changed")
            return 1
        ids = [each for word, found in meant.items() for each in self._ids(word, found)]
        give = self._here.client.order
        outcomes = give(self._verb, ids, change=self._change, how=self._how) if ids else ()
        if self._as_json:
            echo_json(outcomes)
        self._show(outcomes, views, alone=len(words) == 1)
        if self._refused is not None:
            raise self._refused
        return 0

    def _show(
        self, outcomes: Sequence[JobOutcome], views: Sequence[JobView], *, alone: bool
    ) -> None:
        for outcome in outcomes:
            if outcome.error:
                self._refused = _first(self._refused, refusal_of(outcome), alone=alone)
            elif not self._as_json:
                click.echo(_sentence(outcome.id, outcome.jobs, self._verb, self._change))
                _unsettled(outcome.jobs)
                if self._verb in _LEAVES_SOME:
                    _left_running(outcome.id, views, outcome.jobs, self._verb)

    def _mine(self) -> tuple[str, ...]:
        """The ids of the caller's jobs; raises the refusal if the order suits none of them."""
        wanted = JobsOrder(
            verb=self._verb, select=JobSelection(mine=True), dry_run=True, how=self._how
        )
        if self._change is not None:
            wanted = replace(wanted, change=self._change)
        outcomes = self._here.client.order_jobs(wanted).outcomes
        if outcomes and all(outcome.error for outcome in outcomes):
            raise refusal_of(outcomes[0])
        return tuple(outcome.id for outcome in outcomes)

    def _meant(self, words: tuple[str, ...]) -> dict[str, list[JobView]]:
        """The jobs of each word. Many ids are looked up in one list, not one by one."""
        listing = Listing.of(self._here, words)
        meant: dict[str, list[JobView]] = {}
        for word in words:
            try:
                meant[word] = listing.jobs(word)
            except UnavailableError as error:
                # What is looked up may need the store; an order for an id does not.
                if is_identity(word):
                    meant[word] = []
                else:
                    self._refused = _first(self._refused, error, alone=len(words) == 1)
            except TreadleError as error:
                self._refused = _first(self._refused, error, alone=len(words) == 1)
        return meant

    def _ids(self, word: str, found: Sequence[JobView]) -> list[str]:
        """The ids to send for a word."""
        if not found:  # It was not in the list: the daemon knows what became of it.
            return [word]
        if self._verb is Verb.CHANGE:
            return [view.id for view in found]
        wanted = _held(word, found) if self._verb in (Verb.RELEASE, Verb.RESUME) else found
        return whole(self._here, word, wanted)


def _first(first: TreadleError | None, error: TreadleError, *, alone: bool) -> TreadleError:
    """The first refusal is raised once everything was tried; further ones are printed now."""
    if first is None or alone:
        return error
    note(plain(str(error)))
    return first


def _is_held(view: JobView) -> bool:
    """Held by its user, or because a job that it should start after has failed.

    An ended job counts too: the daemon refuses to release it, as it refuses to hold or cancel it.
    """
    if view.state.ended:
        return True
    # Other jobs or a limit of its array hold it too, and no release ends that.
    gated = view.cause in ("array", "dependency")
    if view.pause is not None:
        return bool(view.pause.by)
    stopping = view.cause == "leaving" and view.numbers.get("by") == "user"
    held = view.cause in ("held", "broken") or stopping
    return held or (view.state is State.HELD and not gated)


def _held(word: str, views: Sequence[JobView]) -> list[JobView]:
    """The jobs that can be released, an array as a whole; for the others, print why not."""
    kept = {view.id: view.array for view in views if _is_held(view)}
    arrays = {array for array in kept.values() if array}
    held = [view for view in views if view.id in kept or view.array in arrays]
    if not held and len(views) > 1:
        click.echo(f"none of the {several(len(views), 'job')} of {plain(word)} is held")
        return []
    for view in views:
        if view not in held:
            name = f" ({plain(view.name)})" if view.name else ""
            state = f"is not held, it {_NOW[view.state]}"
            if view.pause is not None:
                state = f"was {plain(view.because)}: it goes on by itself"
            if view.state is State.HELD:  # by the jobs that it starts after
                state = f"is not held by its user: {plain(view.because)}"
            click.echo(f"job {plain(view.id)}{name} {state}")
    return held


def _unsettled(changed: Sequence[JobView]) -> None:
    """Say what is kept in memory only."""
    said = [view.because for view in changed if view.cause == "unsettled"]
    if said:
        note(plain(said[0]))


def _left_running(
    identity: str, views: Sequence[JobView], changed: Sequence[JobView], verb: Verb
) -> None:
    """Say which members of an array were not held or paused."""
    held = {view.id for view in changed}
    left = [view.id for view in views if view.array == identity and view.id not in held]
    if left:
        listed = ", ".join(plain(name) for name in left[:5]) + (", ..." if len(left) > 5 else "")
        many = "job runs and cannot" if len(left) == 1 else "jobs run and cannot"
        lost = "be paused or resume, so holding would lose work"
        done, why = ("held", lost) if verb is Verb.HOLD else ("paused", "be paused")
        note(f"not {done}: {listed}; {len(left):,} {many} {why}")


def _sentence(
    identity: str, changed: tuple[JobView, ...], verb: Verb, change: JobChange | None
) -> str:
    done, expected = _DONE[verb]
    ranked = change is not None and change == JobChange(priority=change.priority)
    if change is not None and not ranked:
        done = "updated"
    if len(changed) == 1:
        view = changed[0]
        name = f" ({plain(view.name)})" if view.name else ""
        level = f": priority {view.priority}" if ranked else ""
        if verb is Verb.PAUSE and view.state is State.HELD:
            return f"job {plain(view.id)}{name} held: it was not running"
        if verb is Verb.RESUME and view.state is State.PAUSED:
            return f"job {plain(view.id)}{name} {plain(view.because)}"
        state = ""
        if expected and view.state is not expected and view.state in _NOW:
            state = f"; it {_NOW[view.state]}"
            state += f": {plain(view.because)}" if view.state in _SAYS_WHY else ""
        return f"job {plain(view.id)}{name} {done}{level}{state}"
    if not changed:
        return f"none of the jobs of {plain(identity)} is {_NONE_IS.get(verb, done)}"
    return f"{several(len(changed), 'job')} of {plain(identity)} {done}"
