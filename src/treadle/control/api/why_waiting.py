"""Why a job waits: first what waiting cannot solve, then what others must do, then the decision.

Nothing is decided here: the policy's reason is what its last decision left behind.
"""

from itertools import islice, takewhile

from treadle.control.api.context import Context
from treadle.control.api.job_progress import left_of
from treadle.control.api.machine_trouble import machine_trouble
from treadle.control.api.nodes_away import undraining, waits_for_nodes, whole_cluster, why_away
from treadle.control.api.queue_order import (
    all_devices,
    closed_devices,
    closed_idle,
    device_count,
    free_devices,
    idle_devices,
)
from treadle.control.api.reasons import because
from treadle.control.jobs import ARRAY, DEPENDENCY, LOST, MACHINE, PROBABLY, USER, JobRecord
from treadle.control.loop import wall
from treadle.core.cluster import Device
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason

NAMED_MAX = 4  # devices
_BY_OTHERS = ("devices", "fragmentation", "type", "rank", "cost", "preempted")


def waiting(context: Context, record: JobRecord, row: Job, *, whole: bool = True) -> Reason:
    """The reason of a job that waits.

    whole: also what takes a look at every member of its array, which a list has no time for.
    """
    return (
        _hopeless(context, record, row)
        or _gated(context, record, whole=whole)
        or _late(context, record)
        or stalled(context, record)
        or _backoff(context, row)
        or _away(context, row)
        # The policy says of a job that its files bind to nodes that it is.
        or (None if row.only_on else _closed(context, row))
        or _decided(context, record, row)
    )


def barred(context: Context, record: JobRecord, row: Job) -> Reason | None:
    """What keeps a job from starting, whatever other jobs do."""
    found = _hopeless(context, record, row) or _late(context, record)
    return found or stalled(context, record)


def _hopeless(context: Context, record: JobRecord, row: Job) -> Reason | None:
    """What waiting cannot solve."""
    if record.broken:
        return because("broken", because=record.broken)
    if record.id in context.scheduler.unfit:
        return _unfit(context, record, row)
    return because("held") if USER in context.scheduler.blocked.get(record.id, ()) else None


def _late(context: Context, record: JobRecord) -> Reason | None:
    """A machine could not launch it, or lost it at once: neither is the job's fault."""
    now, held = context.clock.now(), context.scheduler.blocked.get(record.id, ())
    if MACHINE in held:
        found = context.gates.refusals.of(record.id)
        if found is None:
            return because("launch")
        return because("launch", because=found.sentence, in_s=max(0.0, found.until_s - now))
    if LOST in held:
        again_s = {} if record.again_s is None else {"in_s": max(0.0, record.again_s - now)}
        return because("lost-early", attempts=record.early_losses, **again_s)
    return None


def _unfit(context: Context, record: JobRecord, row: Job) -> Reason:
    """It fits no node that is there."""
    if away := waits_for_nodes(context, row.spec):
        return because("away", **away, undrain=undraining(context, row))
    never = context.scheduler.policy.never_fits(row.spec, whole_cluster(context))
    never = never or context.scheduler.unfit[record.id]
    if record.wait_for_capacity:
        return because("capacity", because=never)
    return Reason("never-fits", {"because": never})


def stalled(context: Context, record: JobRecord) -> Reason | None:
    """Why no job is started at all."""
    if context.condition.draining:
        return because("daemon-draining")
    if error := context.condition.store_error:
        return because("store", because=error)
    lacks = machine_trouble(context)
    if lacks and free_devices(context.scheduler) < record.sizes[0]:
        return because("machine", because=lacks)
    if trouble := context.charge.failing:
        return because("policy", policy=context.charge.policy, because=trouble)
    return None


def _gated(context: Context, record: JobRecord, *, whole: bool) -> Reason | None:
    """What other jobs must do first."""
    held = context.scheduler.blocked.get(record.id, ())
    if DEPENDENCY in held:
        return _dependency(context, record)
    if ARRAY in held:
        return _limited(context, record, whole=whole)
    return None


def _dependency(context: Context, record: JobRecord) -> Reason:
    names = (*record.after, *record.after_any)
    found = {name: context.state_of(name) for name in names}
    after = tuple(
        ("array" if name in context.jobs.arrays else "job", name, state.value.lower())
        for name, state in found.items()
        if state is not None and not state.ended
    )
    return because("dependency", after=after, fails=_fails(context, record))


def _fails(context: Context, record: JobRecord) -> str:
    """A job that has to succeed first and probably will not, by its time limit; empty: none."""
    for name in record.after:
        other, row = context.jobs.records.get(name), context.row(name)
        left = None if other is None or row is None else left_of(context, other, row)
        if left is not None and left.lengths.survival(left.limit_s) > PROBABLY:
            return name
    return ""


def _limited(context: Context, record: JobRecord, *, whole: bool) -> Reason:
    """Its array has a limit, and others of it were let through first."""
    scheduler = context.scheduler
    members = tuple(context.jobs.arrays.get(record.array, ()))
    rows = map(scheduler.jobs.get, members)
    found = (row for row in rows if row and ARRAY not in scheduler.blocked.get(row.id, ()))
    # No more than these are through, and the first ones: a list asks this of every member.
    through = islice(found, record.array_limit or None)
    running = sum(1 for row in through if row.phase is not Phase.WAITING)
    before = 0
    if whole:
        earlier = map(scheduler.jobs.get, takewhile(lambda each: each != record.id, members))
        before = sum(1 for row in earlier if row is not None and row.phase is Phase.WAITING)
    limit = record.array_limit
    return because("array", array=record.array, limit=limit, running=running, before=before)


def _backoff(context: Context, row: Job) -> Reason | None:
    """It failed, and is tried again later; also before the next decision."""
    in_s = row.ready_at - context.clock.now()
    return Reason("backoff", {"failures": row.failures, "in_s": in_s}) if in_s > 0 else None


def _away(context: Context, row: Job) -> Reason | None:
    """It has to go on where its files are, and none of these nodes is in use."""
    away = why_away(context, row.only_on) if row.only_on else ""
    if not away:
        return None
    return because("bound-away", nodes=row.only_on, away=away, undrain=undraining(context, row))


def _closed(context: Context, row: Job) -> Reason | None:
    """It would start, or could some day, but for devices that take no new work."""
    scheduler, least = context.scheduler, row.spec.sizes[0]
    if not scheduler.closed:
        return None
    free, count = free_devices(scheduler, row), device_count(scheduler, row)
    idle, shut = closed_idle(scheduler, row), closed_devices(scheduler, row)
    if free < least <= free + len(idle):
        return _on_closed(context, least, free, idle)
    left = count - len(shut)
    return _on_closed(context, least, left, shut) if left < least <= count else None


def _on_closed(context: Context, asked: int, open_: int, shut: list[Device]) -> Reason:
    said = dict.fromkeys(context.scheduler.closed[device] for device in shut[:NAMED_MAX])
    needed = shut[: asked - open_][:NAMED_MAX]
    opening = tuple((str(each), each.node, _cause(context, each)) for each in needed)
    return because(
        "closed",
        asked=asked,
        open=open_,
        devices=tuple(map(str, shut[:NAMED_MAX])),
        because="; ".join(said),
        opening=opening,
    )


def _cause(context: Context, device: Device) -> str:
    fact = context.closed.get(device)
    return "" if fact is None else fact.cause


def _decided(context: Context, record: JobRecord, row: Job) -> Reason:
    """What the last decision left behind."""
    scheduler = context.scheduler
    found = scheduler.why(row.id, context.clock.now())
    if found.code in _BY_OTHERS and _preempted(context, record):
        since_s = max(0.0, wall() - (record.preempted_at or 0.0))
        return Reason("preempted", {"for_job": record.preempted_for, "since_s": since_s})
    if found.code != "devices":
        return found
    # A policy sees neither closed devices nor drained nodes, and may give away what another job is
    # still leaving.
    seen = {"free": idle_devices(scheduler, row), "total": all_devices(scheduler, row)}
    return Reason(found.code, {**found.numbers, **seen})


def _preempted(context: Context, record: JobRecord) -> bool:
    """Whether it was stopped for a job that still has devices."""
    other = context.row(record.preempted_for)
    return record.preempted_at is not None and other is not None and other.allocation is not None
