"""Why a job waits: one dominant reason, what shows it, and the smallest change that would help.

The order of the questions is the order of precedence: first what no waiting cures, then what its
user or other jobs must do, then what the machine and the policy do.
"""

from weft.control.desk import Desk
from weft.control.estimates import estimate
from weft.control.gates import ARRAY, DEPENDENCY, USER
from weft.control.records import JobRecord
from weft.core.job import Job
from weft.core.lifecycle import Phase
from weft.wire.jobs import State, Why

NAMED_MAX = 4

# Cause, sentence, smallest change, and whether waiting will never help.
Told = tuple[str, str, str, bool]


def why(desk: Desk, record: JobRecord) -> Why:
    """The whole answer about a job, ended or not."""
    row = desk.row(record.id)
    if row is None:
        return _ended(record)
    cause, because, change, never = reason(desk, record, row)
    waits = row.phase is Phase.WAITING
    position = _position(desk, record) if waits else None
    return Why(
        id=record.id,
        state=record.state,
        cause=cause,
        because=because,
        evidence=_evidence(desk, row),
        change=change,
        never=never,
        position=position,
        estimate=estimate(desk, record.id) if position is not None else None,
    )


def brief(desk: Desk, record: JobRecord, row: Job, place: int | None) -> tuple[str, str]:
    """One word and one sentence, for lists of thousands: the policy itself is not asked."""
    if row.phase is not Phase.WAITING:
        if row.phase is Phase.RUNNING:
            return "running", "it runs"
        cause, because, _, _ = _holding(desk, record, row)
        return cause, because
    told = _hopeless(desk, record, row) or _gated(desk, record)
    if told is not None:
        return told[0], told[1]
    free, least = desk.free, row.spec.sizes[0]
    if place is None:
        return "rank", "it waits for its turn"
    if free < least:
        return "devices", f"it needs {_devices(least)} and {free} are free; place {place} in line"
    return "rank", f"place {place} in line"


def reason(desk: Desk, record: JobRecord, row: Job) -> Told:
    """Cause, sentence, smallest change, and whether waiting will never help."""
    if row.phase is not Phase.WAITING:
        return _holding(desk, record, row)
    return _hopeless(desk, record, row) or _gated(desk, record) or _queued(desk, record, row)


def _hopeless(desk: Desk, record: JobRecord, row: Job) -> Told | None:
    """What no waiting cures."""
    if record.broken:
        return (
            "dependency",
            f"it can never start: {record.broken}, and it was to start after that one succeeded",
            f"weft cancel {record.id}, or weft release {record.id} to run it all the same",
            True,
        )
    if record.id in desk.scheduler.unfit:
        return _never_fits(desk, record, row)
    return None


def _gated(desk: Desk, record: JobRecord) -> Told | None:
    """What its user, other jobs or the controller must do first."""
    held = desk.scheduler.held.get(record.id, ())
    if USER in held:
        return ("held", "its user holds it", f"weft release {record.id}", False)
    if DEPENDENCY in held:
        return _dependency(desk, record)
    if ARRAY in held:
        return (
            "array",
            f"{record.array_limit} members of array {record.array} may run at once, and those do",
            "",
            False,
        )
    if desk.draining:
        return ("draining", "the controller is about to leave and starts nothing", "weft up", False)
    if desk.store_error:
        return ("store", f"the store cannot be written: {desk.store_error}", "", False)
    if desk.decider.error:
        return (
            "policy",
            f"the policy failed at its last decision: {desk.decider.error}",
            "weft policy NAME, to decide by another",
            False,
        )
    return None


def _queued(desk: Desk, record: JobRecord, row: Job) -> Told:
    scheduler, now = desk.scheduler, desk.clock.now()
    closed, free = scheduler.closed, desk.free
    least = row.spec.sizes[0]
    idle_closed = [d for d in closed if d not in scheduler.tenancy.tenants]
    if free < least <= free + len(idle_closed):
        shown = "; ".join(f"{device}: {closed[device]}" for device in idle_closed[:NAMED_MAX])
        return (
            "closed",
            (
                f"it needs {_devices(least)}; {free} are free and {len(idle_closed)} cannot be "
                f"used ({shown})"
            ),
            "weft nodes shows who is there",
            False,
        )
    told = scheduler.why(record.id, now)
    change = ""
    if told.cause in ("devices", "fragmentation") and 0 < free < least:
        change = f"it would start now with --devices {free}"
    elif told.cause in ("order", "rank"):
        change = f"weft priority {record.id} {_higher(desk, row)} puts it ahead of all that wait"
    elif told.cause == "devices" and (ends := _next_end(desk)):
        change = ends
    return told.cause, told.sentence, change, False


def _holding(desk: Desk, record: JobRecord, row: Job) -> Told:
    if row.phase is Phase.STARTING:
        waits = desk.not_before.get(record.id, 0.0) - desk.clock.now()
        if waits > 0:
            return ("backing off", f"it failed and is tried again in {waits:.0f} s", "", False)
        return ("starting", "its devices are being cleared and its processes launched", "", False)
    if row.phase in (Phase.STOPPING, Phase.CANCELLING):
        left = f"it has {record.grace_s:g} s to end by itself"
        return ("stopping", f"it was told to stop; {left}", "", False)
    told = desk.scheduler.why(record.id, desk.clock.now())
    return told.cause, told.sentence, "", False


def _never_fits(desk: Desk, record: JobRecord, row: Job) -> Told:
    most = desk.cluster.device_count
    change = ""
    if row.spec.sizes[0] > most:
        change = f"submit it with --devices {most} or fewer"
    return (
        "never fits",
        f"it can never run here: {desk.scheduler.unfit[record.id]}",
        change,
        True,
    )


def _dependency(desk: Desk, record: JobRecord) -> Told:
    open_ones = []
    for name in (*record.after, *record.after_any):
        state = desk.state_of(name)
        if state is not None and not state.ended:
            open_ones.append(f"{name} ({str(state).lower()})")
    shown = ", ".join(open_ones[:NAMED_MAX])
    more = f" and {len(open_ones) - NAMED_MAX} more" if len(open_ones) > NAMED_MAX else ""
    plural = "job" if len(open_ones) == 1 else "jobs"
    return ("dependency", f"it starts after {plural} {shown}{more}", "", False)


def _ended(record: JobRecord) -> Why:
    how = {
        State.SUCCEEDED: "it ended with exit status 0",
        State.FAILED: f"it failed with exit status {record.exit}",
        State.CANCELLED: "it was cancelled",
        State.TIMEOUT: f"it ran into its time limit of {record.time_limit_s or 0:g} s",
    }[record.state]
    evidence: tuple[str, ...] = ()
    change = ""
    if record.failure is not None and record.state is State.FAILED:
        how += f": {record.failure.sentence.rstrip('.')}"
        if record.failure.evidence:
            evidence = (record.failure.evidence,)
        change = record.failure.advice
    return Why(
        id=record.id,
        state=record.state,
        cause=str(record.state).lower(),
        because=how,
        evidence=evidence,
        change=change,
    )


def _evidence(desk: Desk, row: Job) -> tuple[str, ...]:
    scheduler = desk.scheduler
    running = sum(1 for job in scheduler.jobs.values() if job.allocation is not None)
    free = desk.free
    lines = [
        (
            f"{running} {'job holds' if running == 1 else 'jobs hold'} devices, {free} of "
            f"{desk.cluster.device_count} devices are free, {len(scheduler.ranking.queue)} wait"
        ),
    ]
    if row.failures:
        times = "once" if row.failures == 1 else f"{row.failures} times"
        lines.append(f"it failed {times} so far")
    for device, text in list(scheduler.closed.items())[:NAMED_MAX]:
        lines.append(f"{device} is not used: {text}")
    return tuple(lines)


def _position(desk: Desk, record: JobRecord) -> int | None:
    for place, (_, _, identity) in enumerate(desk.scheduler.ranking.queue):
        if identity == record.id:
            return place + 1
    return None


def _higher(desk: Desk, row: Job) -> int:
    waiting = [desk.scheduler.jobs[i].spec.priority for _, _, i in desk.scheduler.ranking.queue]
    return max([row.spec.priority, *waiting]) + 1


def _next_end(desk: Desk) -> str:
    """Who is believed to let go next."""
    now = desk.clock.now()
    ends = [
        (job.remaining_at(now) / job.iterations_per_s, job.id)
        for job in desk.scheduler.jobs.values()
        if job.phase is Phase.RUNNING and job.iterations_per_s > 0
    ]
    if not ends:
        return ""
    left_s, identity = min(ends)
    return f"job {identity} is believed to end next, in about {max(left_s, 0):.0f} s"


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"
