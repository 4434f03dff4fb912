"""How an array stands as a whole: what its members do, why the next one waits, when all end."""

from collections import Counter
from collections.abc import Iterable, Sequence

from treadle.control.api.context import Context
from treadle.control.api.estimates import end_of_all
from treadle.control.api.remedies import despite, released
from treadle.control.api.why_waiting import barred, why
from treadle.control.jobs import JobRecord
from treadle.core.wording import several
from treadle.wire.jobs import Estimate, State, Why

_HELD = (State.PENDING, State.HELD)
# A state, and what one or several members of an array do then.
_VERBS = {
    State.RUNNING: ("runs", "run"),
    State.RESIZING: ("is being resized", "are being resized"),
    State.STARTING: ("is starting", "are starting"),
    State.STOPPING: ("is being stopped", "are being stopped"),
    State.PENDING: ("waits", "wait"),
    State.HELD: ("is held", "are held"),
    State.SUCCEEDED: ("succeeded", "succeeded"),
    State.FAILED: ("failed", "failed"),
    State.TIMEOUT: ("reached its time limit", "reached their time limits"),
    State.CANCELLED: ("was cancelled", "were cancelled"),
}


def why_array(context: Context, array: str, records: Sequence[JobRecord], state: State) -> Why:
    """The answer about an array of which members have not ended."""
    # Members go on while this is computed, on a copy of the scheduler: some may have ended.
    states = {record.id: record.state for record in records if record.id in context.scheduler.jobs}
    live = [one for one in records if one.id in states and not states[one.id].ended]
    waiting = sorted((one for one in live if states[one.id] in _HELD), key=_member)
    next_up = why(context, waiting[0]) if waiting else None
    because = members_text(states[record.id] for record in live) or members_text(states.values())
    if next_up is not None:
        because += f"; the next, job {next_up.id}: {next_up.because}"
    return Why(
        id=array,
        state=state,
        cause="" if next_up is None else next_up.cause,
        because=because,
        evidence=() if next_up is None else next_up.evidence,
        change="" if next_up is None else _change(waiting, next_up, array),
        estimate=None if next_up is None else next_up.estimate,
        end=_end(context, live, waiting),
        members=len(live),
    )


def _change(waiting: Sequence[JobRecord], next_up: Why, array: str) -> str:
    """What would help the next job, or all that wait, if it is the same order."""
    if len(waiting) > 1 and waiting[0].broken:
        return despite(array, "them")
    if len(waiting) > 1 and next_up.cause == "held":
        return released(array, "them")
    return next_up.change


def _end(context: Context, live: Sequence[JobRecord], waiting: Sequence[JobRecord]) -> Estimate:
    """When all have ended; simulations cannot tell if one of them does not start."""
    for record in waiting:
        found = barred(context, record, context.scheduler.jobs[record.id])
        if found is not None:
            does = ": " if found.never else " does not start: "
            return Estimate(because=f"job {record.id}{does}{found.because}")
    return end_of_all(context, {record.id for record in live})


def why_ended(array: str, states: Sequence[State], worst: State) -> Why:
    """The answer about an array that is over."""
    text = members_text(states)
    return Why(id=array, state=worst, cause="", because=text, members=len(states))


def members_text(states: Iterable[State]) -> str:
    """2 run, 3 wait."""
    counts = Counter(states)
    known = [(counts[state], verbs) for state, verbs in _VERBS.items() if counts[state]]
    return ", ".join(several(count, *verbs) for count, verbs in known)


def _member(record: JobRecord) -> int:
    return record.member or 0
