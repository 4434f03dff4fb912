"""Why a job waits: one dominant reason, what shows it, and the smallest change that would help.

The order of the questions is the order of precedence: first what no waiting cures, then what its
user or other jobs must do, then what the machine and the policy do. What would change it is tried
out before it is said (remedies.py).
"""

import signal
from typing import NamedTuple

from treadle.control.api.estimates import estimate
from treadle.control.api.remedies import remedy
from treadle.control.jobs.desk import Desk
from treadle.control.jobs.gates import ARRAY, DEPENDENCY, USER
from treadle.control.jobs.records import JobRecord
from treadle.core.cluster import Device
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.wording import devices, free_of, jobs, listed, span, times
from treadle.wire.jobs import State, Why

NAMED_MAX = 4
_SIGNAL_BASE = 128
ENDING = ("ending", "it has ended, and that is being written down")
_NOT_DECIDED = ("draining", "store", "policy")  # nothing is started, whoever it is


class Told(NamedTuple):
    """The reason, and what is known to help without trying."""

    cause: str
    because: str
    change: str = ""
    never: bool = False  # no waiting helps


def why(desk: Desk, record: JobRecord) -> Why:
    """The whole answer about a job, ended or not."""
    row = desk.row(record.id)
    if row is None:
        state = desk.shown(record)
        if state.ended:
            return _ended(record)
        return Why(id=record.id, state=state, cause=ENDING[0], because=ENDING[1])
    told = reason(desk, record, row)
    queued = desk.in_queue(record.id)
    decided = queued and told.cause not in _NOT_DECIDED
    return Why(
        id=record.id,
        state=record.state,
        cause=told.cause,
        because=told.because,
        evidence=_evidence(desk, row),
        change=told.change or (remedy(desk, row) if decided else ""),
        never=told.never,
        position=desk.place(record.id) if queued else None,
        estimate=estimate(desk, record.id) if decided else None,
    )


def brief(desk: Desk, record: JobRecord, row: Job, place: int | None) -> tuple[str, str]:
    """One word and one sentence, for lists of thousands: the policy itself is not asked."""
    if row.phase is not Phase.WAITING:
        if row.phase is Phase.RUNNING:
            return "running", "it runs"
        told = _holding(desk, record, row)
        return told.cause, told.because
    known = _hopeless(desk, record, row) or _gated(desk, record) or _backing_off(desk, row)
    if known is not None:
        return known.cause, known.because
    free, least = desk.free, row.spec.sizes[0]
    line = "it waits for its turn" if place is None else f"place {place} in line"
    if place is not None and free < least:
        total = desk.cluster.device_count
        return "devices", f"it needs {devices(least)} and {free_of(free, total)}; {line}"
    return "rank", line


def reason(desk: Desk, record: JobRecord, row: Job) -> Told:
    """The dominant reason for where a job stands."""
    if row.phase is not Phase.WAITING:
        return _holding(desk, record, row)
    return (
        _hopeless(desk, record, row)
        or _gated(desk, record)
        or _backing_off(desk, row)
        or _closed(desk, row)
        or _queued(desk, row)
    )


# -- waiting --------------------------------------------------------------------------------------


def _hopeless(desk: Desk, record: JobRecord, row: Job) -> Told | None:
    """What no waiting cures."""
    if record.broken:
        return Told(
            "dependency",
            f"it can never start: {record.broken}, and it was to start after that one succeeded",
            f"treadle release {record.id} runs it all the same; treadle cancel {record.id} "
            "drops it",
            never=True,
        )
    if record.id not in desk.scheduler.unfit:
        return None
    most = desk.cluster.device_count
    change = ""
    if row.spec.sizes[0] > most:
        fewer = "1" if most == 1 else f"{most} or fewer"
        change = f"submit it with --devices {fewer}"
    because = f"it can never run here: {desk.scheduler.unfit[record.id]}"
    return Told("never fits", because, change, never=True)


def _gated(desk: Desk, record: JobRecord) -> Told | None:
    """What its user, other jobs or the controller must do first."""
    held = desk.scheduler.blocked.get(record.id, ())
    if USER in held:
        return Told("held", "its user holds it", f"treadle release {record.id} lets it go")
    if DEPENDENCY in held:
        return _dependency(desk, record)
    if ARRAY in held:
        limit = record.array_limit
        others = "another is" if limit == 1 else f"{limit} others are"
        go = "1 member" if limit == 1 else f"{limit} members"
        because = f"at most {go} of array {record.array} may go at once, and {others} under way"
        return Told("array", because)
    if desk.draining:
        because = "the controller is about to leave and starts nothing any more"
        return Told("draining", because, "treadle up, once it has left, starts it again")
    if desk.store_error:
        return Told("store", f"nothing is started while {desk.store_error}")
    if trouble := desk.decider.failing:
        because = f"the policy {desk.decider.policy} fails, so nothing is started: {trouble}"
        other = "fifo" if desk.decider.policy != "fifo" else "backfill"
        return Told("policy", because, f"treadle policy {other} decides by another one")
    return None


def _dependency(desk: Desk, record: JobRecord) -> Told:
    open_ones = []
    for name in (*record.after, *record.after_any):
        state = desk.state_of(name)
        if state is not None and not state.ended:
            open_ones.append(f"{name} ({str(state).lower()})")
    plural = "job" if len(open_ones) == 1 else "jobs"
    return Told("dependency", f"it starts after {plural} {listed(open_ones, NAMED_MAX)}")


def _backing_off(desk: Desk, row: Job) -> Told | None:
    left_s = row.ready_at - desk.clock.now()
    if left_s <= 0:
        return None
    failed = f"it failed {times(row.failures)} and is tried again in {span(left_s)}"
    return Told("backing off", f"{failed}, or as soon as a job of lower priority would start")


def _closed(desk: Desk, row: Job) -> Told | None:
    """Enough devices are idle, but some of them may not be used."""
    scheduler, free, least = desk.scheduler, desk.free, row.spec.sizes[0]
    idle = [device for device in scheduler.closed if device not in scheduler.tenancy.tenants]
    if not free < least <= free + len(idle):
        return None
    total, count = desk.cluster.device_count, len(idle)
    if free:
        have = f"{free_of(free, total)} and {'one' if count == 1 else count} more cannot be used"
    else:
        have = "the only idle one" if count == 1 else f"{count} idle ones"
        have += " cannot be used"
    shown = "; ".join(scheduler.closed[device] for device in idle[:NAMED_MAX])
    return Told("closed", f"it needs {devices(least)}; {have}: {shown}", _opening(desk, idle[0]))


def _opening(desk: Desk, device: Device) -> str:
    """How a closed device is used again."""
    match desk.device_state(device.number):
        case "avoided":
            return f"treadle device {device} manage (for admins) has it used again"
        case "quarantined":
            return f"treadle device {device} unquarantine (for admins), once it is clean"
        case _:
            return f"{device} is used again as soon as nobody else is on it"


def _queued(desk: Desk, row: Job) -> Told:
    told = desk.scheduler.why(row.id, desk.clock.now())
    return Told(told.cause, told.sentence)


# -- holding --------------------------------------------------------------------------------------


def _holding(desk: Desk, record: JobRecord, row: Job) -> Told:
    match row.phase:
        case Phase.STARTING:
            return _starting(desk, record, row)
        case Phase.STOPPING | Phase.CANCELLING:
            return _stopping(desk, record, row)
        case _:
            return _running(desk, record, row)


def _starting(desk: Desk, record: JobRecord, row: Job) -> Told:
    others = desk.scheduler.in_the_way(row.id)
    if others:
        named = f"job {others[0]}" if len(others) == 1 else f"jobs {listed(others, NAMED_MAX)}"
        return Told("starting", f"it waits for {named} to let go of {_the(row.size)}")
    if record.resizing:
        return Told("resizing", f"it is started again on {devices(row.size)}")
    return Told("starting", f"its processes are being launched on {devices(row.size)}")


def _stopping(desk: Desk, record: JobRecord, row: Job) -> Told:
    how = "it makes way for other jobs and goes on later"
    if row.phase is Phase.CANCELLING:
        how = "it was cancelled"
    elif USER in desk.scheduler.blocked.get(record.id, ()):
        how = "its user holds it"
    left_s = record.grace_s - (desk.clock.now() - row.since_at)
    if left_s > 0:
        return Told("stopping", f"{how}; it has {span(left_s)} left to end by itself")
    return Told("stopping", f"{how}; its {record.grace_s:g} s of grace are over, and it is killed")


def _running(desk: Desk, record: JobRecord, row: Job) -> Told:
    now = desk.clock.now()
    text = f"it has run on {devices(row.size)} for {span(now - row.since_at)}"
    if row.spec.elastic and row.size < row.spec.sizes[-1]:
        text += f" and could use up to {row.spec.sizes[-1]}"
    if record.known or record.progress is not None:
        text += f"; about {100.0 * row.iterations_at(now) / row.spec.iterations:.0f} % is done"
    others = [name for name in desk.sharers(row) if name != row.id]
    if others:
        text += f"; it shares them with job{'s' * (len(others) > 1)} {listed(others, NAMED_MAX)}"
    return Told("running", text)


def _the(count: int) -> str:
    return "its device" if count == 1 else "its devices"


# -- ended ----------------------------------------------------------------------------------------


def _ended(record: JobRecord) -> Why:
    how = {
        State.SUCCEEDED: "it ended with exit status 0",
        State.FAILED: f"it failed with {_status(record.exit)}",
        State.CANCELLED: "it was cancelled",
        State.TIMEOUT: f"it ran into its time limit of {record.time_limit_s or 0:g} s",
    }[record.state]
    evidence: tuple[str, ...] = ()
    change = ""
    if record.state is State.TIMEOUT:
        change = "submit it again with a longer --time-limit"
    if record.failure is not None and record.state is State.FAILED:
        how += f": {record.failure.sentence.rstrip('.')}"
        if record.failure.evidence:
            evidence = (record.failure.evidence,)
        change = record.failure.advice
        if record.failures > 1:
            how += f" (it was tried {times(record.failures)})"
    return Why(
        id=record.id,
        state=record.state,
        cause=str(record.state).lower(),
        because=how,
        evidence=evidence,
        change=change,
    )


def _status(code: int | None) -> str:
    """An exit status, and the signal that it stands for."""
    if code is None:
        return "no exit status"
    try:
        name = f" ({signal.Signals(code - _SIGNAL_BASE).name})" if code > _SIGNAL_BASE else ""
    except ValueError:
        name = ""
    return f"exit status {code}{name}"


def _evidence(desk: Desk, row: Job) -> tuple[str, ...]:
    scheduler = desk.scheduler
    running = sum(1 for job in scheduler.jobs.values() if job.allocation is not None)
    total = desk.cluster.device_count
    hold = jobs(running, "holds devices", "hold devices") if running else "no job holds devices"
    free = desk.free
    are = "is" if free == 1 else "are"
    wait = jobs(len(scheduler.ranking.queue), "waits", "wait")
    lines = [f"{hold}, {free} of {devices(total)} {are} free, {wait}"]
    if row.failures:
        lines.append(f"it failed {times(row.failures)} so far")
    for device, text in list(scheduler.closed.items())[:NAMED_MAX]:
        lines.append(f"{device} is not used: {text}")
    return tuple(lines)
