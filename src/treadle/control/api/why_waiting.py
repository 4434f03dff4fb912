"""Why a job waits: the dominant reason, its evidence, and the smallest change that would help.

Reasons are checked in order of precedence: first what waiting cannot solve, then what its user or
other jobs must do, then the machine and the policy. A remedy is tried before it is suggested
(remedies.py).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice, takewhile

from treadle.control.api.context import Context
from treadle.control.api.estimates import forecast
from treadle.control.api.job_progress import end_of, expectation, length_of, progress_of
from treadle.control.api.machine_trouble import machine_trouble
from treadle.control.api.queue_order import (
    STOPPING,
    device_count,
    free_devices,
    free_text,
    held_devices,
    idle_devices,
    in_queue,
    position,
    sharers,
    usable,
)
from treadle.control.api.remedies import despite, released, remedy
from treadle.control.api.sizes import scaling_doubt, why_small
from treadle.control.api.why_closed import Finding, on_closed
from treadle.control.api.why_ended import how_it_ended
from treadle.control.jobs import ARRAY, DEPENDENCY, MACHINE, USER, JobRecord, fits_at_most
from treadle.core.device_types import ANY, is_of
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.snapshot import Reason
from treadle.core.wording import (
    are,
    devices,
    free_devices_of,
    free_of,
    jobs,
    listed,
    named_jobs,
    several,
    share,
    span,
    times,
)
from treadle.policies.wrappers.host_requests import host_reason
from treadle.policies.wrappers.reserve import until_reserved
from treadle.policies.wrappers.share import why_alone
from treadle.policies.wrappers.steady import OVER_S
from treadle.policies.wrappers.unsuitable import short_of
from treadle.wire.jobs import Why

NAMED_MAX = 4
ENDING = ("ending", "it has ended; that is being written to the store")
_FOLLOWS = ("dependency", "array")
_NOT_DECIDED = ("draining", "store", "policy", "machine")  # no job is started


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
    ahead = forecast(context, record.id) if decided or follows else None
    start = None if ahead is None else ahead.start
    return Why(
        id=record.id,
        state=record.state,
        cause=found.cause,
        because=found.because,
        evidence=_evidence(context, row),
        change=found.change or (remedy(context, row, ahead.typical) if decided and ahead else ""),
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
    snapshot = scheduler.snapshot(context.clock.now())
    return why_alone(scheduler.policy, snapshot, row.id) or ""


def _reservation(context: Context, row: Job) -> str:
    """How often a gang was overtaken, and when devices are kept for it."""
    scheduler = context.scheduler
    return until_reserved(scheduler.policy, scheduler.snapshot(context.clock.now()), row.id)


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
            return "running", _company_text(row.size, beside(context, row)).removeprefix("it ")
        found = _holding(context, record, row)
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
        return "devices", short_of(row, context.cluster, free) or (
            f"{'it needs at least' if row.spec.elastic else 'it asks for'} {devices(least)} and "
            f"{free_text(context.scheduler, row)}"
        )
    if host := _host_reason(context, row):
        return host.cause, host.sentence
    return "rank", f"not asked yet; treadle why {record.id} asks the policy"


def _none_free(context: Context) -> str:
    return free_of(0, context.cluster.device_count, usable(context.scheduler))


def _host_reason(context: Context, row: Job) -> Reason | None:
    """That it waits for host memory or cores; looked up only for jobs that ask for some."""
    if not (row.spec.host_memory_gib or row.spec.host_cores):
        return None
    return host_reason(context.scheduler.snapshot(context.clock.now()), row)


def reason(context: Context, record: JobRecord, row: Job) -> Finding:
    """The dominant reason for where a job stands."""
    if row.phase is not Phase.WAITING:
        return _holding(context, record, row)
    return (
        _hopeless(context, record, row)
        or _gated(context, record)
        or _backing_off(context, row)
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
    drained = context.drained
    used = device_count(context.scheduler, row)
    words = row.spec.device_types or (ANY,)
    drained = {n: d for n, d in drained.items() if any(is_of(d.device_type, w) for w in words)}
    if used < row.spec.sizes[0] <= used + sum(each.devices for each in drained.values()):
        because = f"it needs devices of nodes that are drained: {', '.join(drained)}"
        return Finding("drained", because, f"treadle nodes undrain {min(drained)} (for admins)")
    fewer = fits_at_most(row.spec, context.cluster)
    change = f"submit it with --devices {fewer}" if fewer else ""
    because = f"it can never run here: {context.scheduler.unfit[record.id]}"
    return Finding("never fits", because, change, never=True)


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
    return _stalled(context, record)


def barred(context: Context, record: JobRecord, row: Job) -> Finding | None:
    """What keeps a waiting job from starting, whatever other jobs do."""
    held = context.scheduler.blocked.get(record.id, ())
    return (
        _hopeless(context, record, row)
        or (_held(record) if USER in held else None)
        or (_refused(context, record) if MACHINE in held else None)
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
        return Finding("machine", "this machine could not launch it; it is tried again at once")
    left_s = max(0.0, found.until_s - context.clock.now())
    return Finding(
        "machine",
        f"this machine could not launch it: {found.sentence}; it is tried again in {span(left_s)}",
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


def _backing_off(context: Context, row: Job) -> Finding | None:
    left_s = row.ready_at - context.clock.now()
    if left_s <= 0:
        return None
    failed = f"it failed {times(row.failures)} and is tried again in {span(left_s)}"
    return Finding("backing off", f"{failed}, or as soon as a job of lower priority would start")


def _queued(context: Context, row: Job) -> Finding:
    found = context.scheduler.why(row.id, context.clock.now())
    # A policy does not see closed devices, and takes those that are idle for taken.
    taken = free_of(0, context.cluster.device_count)
    return Finding(found.cause, found.sentence.replace(taken, _none_free(context)))


# -- holding --------------------------------------------------------------------------------------


def _holding(context: Context, record: JobRecord, row: Job) -> Finding:
    match row.phase:
        case Phase.STARTING:
            return _starting(context, record, row)
        case Phase.STOPPING | Phase.CANCELLING:
            return _stopping(context, record, row)
        case _:
            return _running(context, record, row)


def _starting(context: Context, record: JobRecord, row: Job) -> Finding:
    others = context.scheduler.in_the_way(row.id)
    if others:
        whose = named_jobs(others, NAMED_MAX)
        return Finding("starting", f"it waits for {whose} to release {_the(row.size)}")
    if record.resizing:
        return Finding("resizing", f"it is restarting on {devices(row.size)}")
    if stuck := context.stuck(row.id):
        return Finding("starting", stuck)
    return Finding("starting", f"its processes are being launched on {devices(row.size)}")


def _stopping(context: Context, record: JobRecord, row: Job) -> Finding:
    how = "it is preempted and will resume later"
    if row.phase is Phase.CANCELLING:
        how = "it was cancelled"
    elif USER in context.scheduler.blocked.get(record.id, ()):
        how = "its user holds it"
    if stuck := context.stuck(row.id):
        return Finding("stopping", f"{how}; {stuck}")
    left_s = record.grace_s - (context.clock.now() - row.since_at)
    if left_s > 0:
        return Finding("stopping", f"{how}; it has {span(left_s)} left to end by itself")
    return Finding(
        "stopping", f"{how}; its {record.grace_s:g} s of grace are over, and it is killed"
    )


def _running(context: Context, record: JobRecord, row: Job) -> Finding:
    now = context.clock.now()
    if row.over_at is not None:
        since = span(now - row.over_at)
        now_is = "is about to end" if now < row.over_at + OVER_S else "still runs"
        return Finding("running", f"it ended its training {since} ago and {now_is}")
    text = f"it has run on {devices(row.size)} for {span(now - row.since_at)}"
    if row.spec.elastic and row.size < row.spec.sizes[-1]:
        text += f" and could use up to {row.spec.sizes[-1]}: {why_small(context, row)}"
    progress = progress_of(context, record, row)
    if progress is not None and progress.total:
        text += f"; {share(min(1.0, progress.step / progress.total))} is done"
    if others := beside(context, row):
        text += f"; {_company_text(row.size, others)}"
    if choice := context.scheduler.why(row.id, now).choice:
        text += f"; {choice}{scaling_doubt(row)}"
    return Finding("running", text)


def beside(context: Context, row: Job) -> tuple[JobId, ...]:
    """The other jobs on its devices."""
    return tuple(name for name in sharers(context.scheduler, row) if name != row.id)


def _company_text(size: int, others: Sequence[JobId]) -> str:
    return f"it shares {_the(size)} with {named_jobs(others, NAMED_MAX)}" if others else ""


def _the(count: int) -> str:
    return "its device" if count == 1 else "its devices"


# -- all ------------------------------------------------------------------------------------------


def _evidence(context: Context, row: Job) -> tuple[str, ...]:
    scheduler = context.scheduler
    held = [
        job
        for job in scheduler.jobs.values()
        if job.allocation is not None or (job.phase in STOPPING and held_devices(scheduler, job))
    ]
    starting = [job for job in held if job.phase is Phase.STARTING]
    next_up = [job for job in starting if scheduler.in_the_way(job.id)]
    total, holding = context.cluster.device_count, len(held) - len(next_up)
    hold = jobs(holding, "holds devices", "hold devices") if holding else "no job holds devices"
    if stopping := sum(1 for job in held if job.phase in STOPPING):
        hold += f" ({stopping} of them {are(stopping)} being stopped)"
    if next_up:
        hold += f", {several(len(next_up), 'more is', 'more are')} starting as they are released"
    free = free_devices_of(idle_devices(scheduler), total, usable(scheduler))
    queued = len(scheduler.ranking.queue)
    wait = jobs(queued, "waits", "wait") if queued else "no job waits"
    if limited := sum(1 for reasons in scheduler.blocked.values() if {*reasons} == {ARRAY}):
        wait += f", {several(limited, 'more waits', 'more wait')} for the limit of an array"
    lines = [f"{hold}, {free}, {wait}"]
    if row.failures:
        lines.append(f"it failed {times(row.failures)} so far")
    for device, text in list(scheduler.closed.items())[:NAMED_MAX]:
        lines.append(f"{device} is closed: {text}")
    return tuple(lines)
