"""How an array stands as a whole: what its members do, why the next one waits, when all end."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.api.estimates import end_of_all
from treadle.control.api.reasons import NEVER
from treadle.control.api.sentences import Said, advice
from treadle.control.api.why import why
from treadle.control.api.why_waiting import barred
from treadle.control.jobs import JobRecord, given_name
from treadle.core.reasons import Reason
from treadle.wire.jobs import Estimate, State, Why

_HELD = (State.PENDING, State.HELD)
# What members of an array do in a state.
_WORDS = {
    State.RUNNING: "running",
    State.RESIZING: "resizing",
    State.STARTING: "starting",
    State.STOPPING: "stopping",
    State.PENDING: "waiting",
    State.HELD: "on hold",
    State.SUCCEEDED: "succeeded",
    State.FAILED: "failed",
    State.TIMEOUT: "reached their time limit",
    State.CANCELLED: "cancelled",
}


def why_array(context: Context, array: str, records: Sequence[JobRecord], state: State) -> Why:
    """The answer about an array of which members have not ended."""
    # Members go on while this is computed, on a copy of the scheduler: some may have ended.
    states = {record.id: record.state for record in records if record.id in context.scheduler.jobs}
    live = [one for one in records if one.id in states and not states[one.id].ended]
    waiting = sorted((one for one in live if states[one.id] in _HELD), key=_member)
    counts = members_text(states[record.id] for record in live) or members_text(states.values())
    end = _end(context, live, waiting)
    name = given_name(records[0]) if records else ""
    if not waiting:
        return Why(id=array, name=name, state=state, sentence=counts, end=end, members=len(live))
    found = why(context, waiting[0])
    all_alike = len(waiting) > 1 and found.code in ("held", "broken")
    reason = Reason(found.code, found.numbers)  # type: ignore[arg-type]  # as it was answered
    return replace(
        found,
        id=array,
        state=state,
        sentence=f"{counts}; the next, job {found.id}: {found.sentence}",
        change=advice(reason, array, "them") if all_alike else found.change,
        never=False,
        position=None,
        length=None,
        end=end,
        members=len(live),
    )


def _end(context: Context, live: Sequence[JobRecord], waiting: Sequence[JobRecord]) -> Estimate:
    """When all have ended; simulations cannot tell if one of them does not start."""
    for record in waiting:
        found = barred(context, record, context.scheduler.jobs[record.id])
        if found is not None:
            does = "never starts" if found.code in NEVER else "does not start"
            return Estimate(because=f"job {record.id} {does}: {Said(context).sentence(found)}")
    return end_of_all(context, {record.id for record in live})


def why_ended(array: str, states: Sequence[State], worst: State) -> Why:
    """The answer about an array that is over."""
    text = members_text(states)
    return Why(id=array, state=worst, sentence=text, members=len(states))


def members_text(states: Iterable[State]) -> str:
    """2 running, 3 waiting."""
    counts = Counter(states)
    return ", ".join(f"{counts[each]:,} {word}" for each, word in _WORDS.items() if counts[each])


def _member(record: JobRecord) -> int:
    return record.member or 0
