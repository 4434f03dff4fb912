"""Why a job waits: first what waiting cannot solve, then what others must do, then the decision.

Nothing is decided here: the policy's reason is what its last decision left behind.
"""

from treadle.control.api.context import Context
from treadle.control.api.job_progress import left_of
from treadle.control.api.machine_trouble import machine_trouble
from treadle.control.api.nodes_away import away, bound_away, whole_cluster
from treadle.control.api.queue_order import (
    all_devices,
    closed_devices,
    closed_idle,
    device_count,
    free_devices,
    idle_devices,
)
from treadle.control.jobs import ARRAY, DEPENDENCY, MACHINE, PROBABLY, USER, JobRecord
from treadle.control.loop import wall
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason, because

NAMED_MAX = 4  # devices
_BY_OTHERS = ("devices", "fragmentation", "type", "rank", "cost", "preempted")


def waiting(context: Context, record: JobRecord, row: Job) -> Reason:
    """The reason of a job that waits."""
    return (
        barred(context, record, row)
        or _gated(context, record)
        or bound_away(context, row)
        # The policy says of a job that its files bind to nodes that it is.
        or (None if row.only_on else _closed(context, row))
        or _decided(context, record, row)
    )


def barred(context: Context, record: JobRecord, row: Job) -> Reason | None:
    """What keeps a job from starting, whatever other jobs do."""
    if record.broken:
        return because("broken", because=record.broken)
    if record.id in context.scheduler.unfit:
        return _unfit(context, record, row)
    if USER in context.scheduler.blocked.get(record.id, ()):
        return because("held", reasons=(USER,))
    return _late(context, record) or _stalled(context, record)


def _late(context: Context, record: JobRecord) -> Reason | None:
    """A machine could not launch it, or lost it at once: neither is the job's fault."""
    now, held = context.clock.now(), context.scheduler.blocked.get(record.id, ())
    if MACHINE in held:
        if (found := context.gates.refusals.of(record.id)) is None:
            return because("launch")
        return because("launch", because=found.sentence, in_s=max(0.0, found.until_s - now))
    return None


def _unfit(context: Context, record: JobRecord, row: Job) -> Reason:
    """It fits no node that is there."""
    if found := away(context, row):
        return found
    never = context.scheduler.policy.never_fits(row.spec, whole_cluster(context))
    never = never or context.scheduler.unfit[record.id]
    if record.wait_for_capacity:
        return because("capacity", because=never)
    return because("never-fits", because=never)


def _stalled(context: Context, record: JobRecord) -> Reason | None:
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


def _gated(context: Context, record: JobRecord) -> Reason | None:
    """What other jobs must do first."""
    held = context.scheduler.blocked.get(record.id, ())
    if DEPENDENCY in held:
        states = {name: context.state_of(name) for name in (*record.after, *record.after_any)}
        after = tuple(
            ("array" if name in context.jobs.arrays else "job", name, state.value.lower())
            for name, state in states.items()
            if state is not None and not state.ended
        )
        return because("dependency", after=after, fails=_fails(context, record))
    if ARRAY not in held:
        return None
    through, blocked = context.gates.through(record.array), context.scheduler.blocked
    kept = tuple(name for name in through if USER in blocked.get(name, ()))
    rows = [context.row(name) for name in through if name not in kept]
    running = sum(row is not None and row.phase is not Phase.WAITING for row in rows)
    return because(
        "array", array=record.array, limit=record.array_limit, running=running, held=kept
    )


def _fails(context: Context, record: JobRecord) -> str:
    """A job that has to succeed first and probably will not, by its time limit; empty: none."""
    for name in record.after:
        other, row = context.jobs.records.get(name), context.row(name)
        left = None if other is None or row is None else left_of(context, other, row)
        if left is not None and left.lengths.survival(left.limit_s) > PROBABLY:
            return name
    return ""


def _closed(context: Context, row: Job) -> Reason | None:
    """It would start, or could some day, but for devices that take no new work."""
    scheduler, least = context.scheduler, row.spec.sizes[0]
    if not scheduler.closed:
        return None
    left, shut = free_devices(scheduler, row), closed_idle(scheduler, row)
    if not left < least <= left + len(shut):
        shut = closed_devices(scheduler, row)
        left = device_count(scheduler, row) - len(shut)
    if not left < least <= left + len(shut):
        return None
    shown, causes = shut[:NAMED_MAX], context.closed
    opening = tuple(
        (str(each), each.node, causes[each].cause if each in causes else "")
        for each in shown[: least - left]
    )
    return because(
        "closed",
        asked=least,
        open=left,
        devices=tuple(map(str, shown)),
        because="; ".join(dict.fromkeys(scheduler.closed[each] for each in shown)),
        opening=opening,
    )


def _decided(context: Context, record: JobRecord, row: Job) -> Reason:
    """What the last decision left behind."""
    scheduler = context.scheduler
    found = scheduler.why(row.id, context.clock.now())
    other = context.row(record.preempted_for)
    if found.code in _BY_OTHERS and other is not None and other.allocation is not None:
        return preempted(record)
    if found.code != "devices":
        return found
    # A policy sees neither closed devices nor drained nodes, and may give away what another job is
    # still leaving.
    seen = {"free": idle_devices(scheduler, row), "total": all_devices(scheduler, row)}
    return Reason(found.code, {**found.numbers, **seen})


def preempted(record: JobRecord) -> Reason:
    """That it was stopped for another."""
    since_s = max(0.0, wall() - (record.preempted_at or 0.0))
    return because("preempted", for_job=record.preempted_for, since_s=since_s)
