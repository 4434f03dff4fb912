"""How an array stands as a whole: what its members do, why the next one waits, when all end."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.api.estimates import end_of_all
from treadle.control.api.sentences import Said, Spoken
from treadle.control.api.why import why
from treadle.control.api.why_waiting import barred
from treadle.control.jobs import JobRecord, given_name
from treadle.core.job_sentences import advice
from treadle.core.reasons import NEVER, Reason, because
from treadle.wire.jobs import Estimate, State, Why


def why_array(context: Context, array: str, records: Sequence[JobRecord], state: State) -> Why:
    """The answer about an array whose members have not all ended."""
    # Members go on while this is computed, on a copy of the scheduler: some may have ended.
    states = {one.id: one.state for one in records if one.id in context.scheduler.jobs}
    live = [one for one in records if one.id in states and not states[one.id].ended]
    waiting = [one for one in live if states[one.id] in (State.PENDING, State.HELD)]
    doing = members(context, [states[one.id] for one in live] or states.values())
    end, name = _end(context, live, waiting), given_name(records[0]) if records else ""
    if not waiting:
        return Why(id=array, name=name, state=state, end=end, members=len(live), **doing)
    found = why(context, min(waiting, key=lambda one: one.member or 0))
    all_alike = len(waiting) > 1 and found.code in ("held", "broken")
    return replace(
        found,
        id=array,
        state=state,
        sentence=f"{doing['sentence']}; the next, job {found.id}: {found.sentence}",
        change=advice(Reason(found.code), array, "them") if all_alike else found.change,
        never=False,
        position=None,
        length=None,
        end=end,
        members=len(live),
    )


def members(context: Context, states: Iterable[State]) -> Spoken:
    """What the members of an array do, or how they ended."""
    counts = tuple((str(state), count) for state, count in Counter(states).items())
    return Said(context).spoken(because("members", states=counts))


def _end(context: Context, live: Sequence[JobRecord], waiting: Sequence[JobRecord]) -> Estimate:
    """When all have ended; simulations cannot tell if one of them does not start."""
    for record in waiting:
        found = barred(context, record, context.scheduler.jobs[record.id])
        if found is not None:
            does = "never starts" if found.code in NEVER else "does not start"
            return Estimate(because=f"job {record.id} {does}: {Said(context).sentence(found)}")
    return end_of_all(context, {record.id for record in live})
