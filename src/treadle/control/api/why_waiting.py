"""Why a job waits: the dominant reason, its evidence, and the smallest change that would help.

Reasons are checked in order of precedence: first what waiting cannot solve, then what its user or
other jobs must do, then the machine and the policy. A remedy is tried before it is suggested
(remedies.py).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice, takewhile

from treadle.control.api.context import Context
from treadle.control.api.estimates import forecast
from treadle.control.api.job_progress import end_of, expectation, left_of, length_of
from treadle.control.api.machine_trouble import machine_trouble
from treadle.control.api.nodes_away import (
    on_drained,
    undraining,
    waits_for_nodes,
    whole_cluster,
    why_away,
)
from treadle.control.api.queue_order import (
    STOPPING,
    free_devices,
    free_text,
    in_queue,
    position,
)
from treadle.control.api.remedies import despite, released, remedy
from treadle.control.api.why_closed import on_closed
from treadle.control.api.why_ended import how_it_ended
from treadle.control.api.why_evidence import evidence
from treadle.control.api.why_holding import NAMED_MAX, Finding, beside, company_text, holding
from treadle.control.jobs import (
    ARRAY,
    DEPENDENCY,
    LOST,
    MACHINE,
    PROBABLY,
    USER,
    JobRecord,
    fits_at_most,
)
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.sentences import sentence
from treadle.core.wording import (
    devices,
    listed,
    named_jobs,
    several,
    span,
    times,
)
from treadle.wire.jobs import Why

ENDING = ("ending", "it has ended; that is being written to the store")
_FOLLOWS = ("dependency", "array")
# No job is started, or it cannot be before an admin or a node acts.
_NOT_DECIDED = ("draining", "store", "policy", "machine", "drained", "lost")


Reasons = Mapping[JobId, tuple[str, str]]  # a word and a sentence


def why(context: Context, record: JobRecord) -> Why:
    """The whole answer about a job, ended or not."""
    row = context.row(record.id)
    if row is None:
        state = context.jobs.shown_state(record)
        if state.ended:
            return how_it_ended(record)
        return Why(id=record.id, state=state, cause=ENDING[0], because=ENDING[1])
    found = reason(context, record, row)
    queued = in_queue(context.scheduler, record.id)
    decided = queued and found.cause not in _NOT_DECIDED
    # It is let through in the simulation, when what it waits for has happened.
    follows = found.cause in _FOLLOWS and not found.never and not _stalled(context, record)
    if follows and (doubt := _ended_by_limit(context, record)):
        found, follows = found._replace(because=f"{found.because}; {doubt}"), False
    ahead = forecast(context, record.id) if decided or follows else None
    start = None if ahead is None else ahead.start
    change = found.change
    if found.cause == "drained":
        change = undraining(context, row)
    elif not change and decided and ahead:
        change = remedy(context, row, ahead.typical)
    return Why(
        id=record.id,
        state=record.state,
        cause=found.cause,
        because=found.because,
        evidence=evidence(context, row),
        change=change,
        never=found.never,
        position=position(context.scheduler, record.id),
        waiting=len(context.scheduler.ranking.queue) if queued else 0,
        estimate=start,
        length=None
        if row.phase in STOPPING
        else length_of(expectation(context, record, row), row.spec, record.time_limit_s),
        end=end_of(context, record, row),
        company=_company(context, record, row) if decided else "",
        reservation=_reservation(context, row) if decided else "",
        beside=beside(context, row),
    )


def _company(context: Context, record: JobRecord, row: Job) -> str:
    """Why a waiting job joins no running one; empty if none runs, or it may."""
    scheduler = context.scheduler
    if free_devices(scheduler, row) >= row.spec.sizes[0]:
        return ""
    if row.spec.exclusive and not record.exclusive and record.alone_because:
        return f"it runs alone because {record.alone_because}"  # Its user did not ask for that.
    return ""


def _reservation(context: Context, row: Job) -> str:
    """How often a gang was overtaken, and when devices are kept for it."""
    return ""


def reasons(context: Context, records: Sequence[JobRecord], spent: Callable[[], bool]) -> Reasons:
    """What `why` says of these jobs, for as many of them as there is time for."""
    found: dict[JobId, tuple[str, str]] = {}
    for record in records:
        row = context.row(record.id)
        if spent():
            break
        context.condition.orders.rest()
        if row is not None and row.phase is Phase.WAITING:
            answer = reason(context, record, row)
            found[record.id] = answer.cause, answer.because
    return found


def brief(
    context: Context,
    record: JobRecord,
    row: Job,
    *,
    queued: bool,
    before: tuple[str, str] | None = None,
) -> tuple[str, str]:
    """One word and one sentence, for lists of thousands: the policy is not asked.

    before: what it said a moment ago.
    """
    if row.phase is not Phase.WAITING:
        if row.phase is Phase.RUNNING:
            # That it runs, the state says.
            company = company_text(row.size, beside(context, row)).removeprefix("it ")
            return "running", "; ".join(filter(None, (company, on_drained(context, row))))
        found = holding(context, record, row)
        return found.cause, found.because
    known = (
        _hopeless(context, record, row)
        or _gated(context, record, whole=False)
        or _backing_off(context, row)
    )
    if known is not None:
        return known.cause, known.because
    if queued and before is not None:
        return before
    free, least = free_devices(context.scheduler, row), row.spec.sizes[0]
    if queued and free < least:
        return "devices", (
            f"{'it needs at least' if row.spec.elastic else 'it asks for'} {devices(least)} and "
            f"{free_text(context.scheduler, row)}"
        )
    return "rank", f"not asked yet; treadle why {record.id} asks the policy"


def reason(context: Context, record: JobRecord, row: Job) -> Finding:
    """The dominant reason for where a job stands."""
    if row.phase is not Phase.WAITING:
        return holding(context, record, row)
    return (
        _hopeless(context, record, row)
        or _gated(context, record)
        or _backing_off(context, row)
        or _bound(context, row)
        # The policy says of a job that its files bind to nodes that it is.
        or (None if row.only_on else on_closed(context, row))
        or _queued(context, row)
    )


# -- waiting --------------------------------------------------------------------------------------


def _hopeless(context: Context, record: JobRecord, row: Job) -> Finding | None:
    """What waiting cannot solve."""
    if record.broken:
        return Finding(
            "dependency",
            f"it can never start: it depends on the success of a job, and {record.broken}",
            despite(record.id),
            never=True,
        )
    if record.id not in context.scheduler.unfit:
        return None
    cause, because = waits_for_nodes(context, row.spec)
    if cause:
        return Finding(cause, because)
    whole = whole_cluster(context)
    never = context.scheduler.policy.never_fits(row.spec, whole)
    never = never or context.scheduler.unfit[record.id]
    if record.wait_for_capacity:
        return Finding("capacity", f"it waits until there is room for it: {never}")
    fewer = fits_at_most(row.spec, whole)
    change = f"submit it with --devices {fewer}" if fewer else ""
    return Finding("never fits", f"it can never run here: {never}", change, never=True)


def _gated(context: Context, record: JobRecord, *, whole: bool = True) -> Finding | None:
    """What its user, other jobs, a machine or the daemon must do first.

    whole: also what takes a look at every member of its array, which a list has no time for.
    """
    held = context.scheduler.blocked.get(record.id, ())
    if USER in held:
        return _held(record)
    if DEPENDENCY in held:
        return _dependency(context, record)
    if ARRAY in held:
        return _limited(context, record, whole=whole)
    if MACHINE in held:
        return _refused(context, record)
    if LOST in held:
        return _lost_early(context, record)
    return _stalled(context, record)


def barred(context: Context, record: JobRecord, row: Job) -> Finding | None:
    """What keeps a waiting job from starting, whatever other jobs do."""
    held = context.scheduler.blocked.get(record.id, ())
    return (
        _hopeless(context, record, row)
        or (_held(record) if USER in held else None)
        or (_refused(context, record) if MACHINE in held else None)
        or (_lost_early(context, record) if LOST in held else None)
        or _stalled(context, record)
    )


def _held(record: JobRecord) -> Finding:
    return Finding("held", "its user holds it", released(record.id))


def _limited(context: Context, record: JobRecord, *, whole: bool) -> Finding:
    """Its array has a limit, and others of it were let through first."""
    scheduler = context.scheduler
    members = tuple(context.jobs.arrays.get(record.array, ()))
    rows = map(scheduler.jobs.get, members)
    found = (row for row in rows if row and ARRAY not in scheduler.blocked.get(row.id, ()))
    # No more than these are through, and the first ones: a list asks this of every member.
    through = islice(found, record.array_limit or None)
    running = sum(1 for row in through if row.phase is not Phase.WAITING)
    waiting = 0
    if whole:
        before = map(scheduler.jobs.get, takewhile(lambda each: each != record.id, members))
        waiting = sum(1 for row in before if row is not None and row.phase is Phase.WAITING)
    parts = [several(running, "runs", "run")] if running else []
    parts += [several(waiting, "waits", "wait") + " before it"] if waiting else []
    limit = several(record.array_limit, "member")
    others = f": {' and '.join(parts)}" if parts else ""  # One has just ended, and this is next.
    because = f"at most {limit} of array {record.array} may run at once{others}"
    return Finding("array", because)


def _stalled(context: Context, record: JobRecord) -> Finding | None:
    """Why no job is started at all."""
    if context.condition.draining:
        because = "the daemon is draining and starts no more jobs"
        return Finding("draining", because, "run treadle up once it has stopped")
    if context.condition.store_error:
        return Finding(
            "store",
            f"no job is started: the store cannot be written ({context.condition.store_error})",
        )
    lacks = machine_trouble(context)
    if lacks and free_devices(context.scheduler) < record.sizes[0]:
        return Finding("machine", lacks)
    if trouble := context.charge.failing:
        because = f"the policy {context.charge.policy} fails, so no job is started: {trouble}"
        other = "fifo" if context.charge.policy != "fifo" else "backfill"
        return Finding("policy", because, f"treadle policy {other} switches to another policy")
    return None


def _refused(context: Context, record: JobRecord) -> Finding:
    """A machine could not launch it, which was not the job's fault."""
    found = context.gates.refusals.of(record.id)
    if found is None:
        return Finding("machine", "it could not be launched; it is tried again at once")
    left_s = max(0.0, found.until_s - context.clock.now())
    return Finding(
        "machine",
        f"it could not be launched: {found.sentence}; it is tried again in {span(left_s)}",
    )


def _lost_early(context: Context, record: JobRecord) -> Finding:
    """Where it ran, something ended it at once; that was not the job's fault either."""
    until_s, now = record.again_s, context.clock.now()
    again = "" if until_s is None else f"; it is tried again in {span(max(0.0, until_s - now))}"
    return Finding(
        "backing off",
        f"its last {record.early_losses} attempts were lost within seconds of their start, which "
        f"is not charged to it{again}",
    )


def _dependency(context: Context, record: JobRecord) -> Finding:
    open_jobs, parts = [], []
    for name in (*record.after, *record.after_any):
        state = context.state_of(name)
        if state is not None and not state.ended:
            text = f"{name} ({str(state).lower()})"
            if name in context.jobs.arrays:
                parts.append(f"array {text}")
            else:
                open_jobs.append(text)
    if open_jobs or not parts:
        parts.insert(0, named_jobs(open_jobs, NAMED_MAX))
    return Finding("dependency", f"it starts after {listed(parts, NAMED_MAX)}")


def _ended_by_limit(context: Context, record: JobRecord) -> str:
    """That a job which has to succeed first will probably not; empty if none is known to fail."""
    for name in record.after:
        other, row = context.jobs.records.get(name), context.row(name)
        left = None if other is None or row is None else left_of(context, other, row)
        if left is not None and left.lengths.survival(left.limit_s) > PROBABLY:
            return f"the time limit of job {name} will probably end it, and it then never starts"
    return ""


def _backing_off(context: Context, row: Job) -> Finding | None:
    left_s = row.ready_at - context.clock.now()
    if left_s <= 0:
        return None
    failed = f"it failed {times(row.failures)} and is tried again in {span(left_s)}"
    return Finding("backing off", f"{failed}, or as soon as a job of lower priority would start")


def _bound(context: Context, row: Job) -> Finding | None:
    """It has to go on where its files are, and none of these nodes is in use."""
    cause, state = why_away(context, row.only_on) if row.only_on else ("", "")
    if not cause:
        return None
    return Finding(cause, f"bound to {row.only_on}; {state}")


def _queued(context: Context, row: Job) -> Finding:
    found = context.scheduler.why(row.id, context.clock.now())
    return Finding(found.code, sentence(found))
