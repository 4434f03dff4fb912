"""Why a job that holds devices, or releases them, stands where it does."""

from collections.abc import Sequence

from treadle.control.api.context import Context
from treadle.control.jobs import USER, JobRecord, attempt_of
from treadle.core.cluster import Device
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Number, Reason, because
from treadle.core.why import holders_of
from treadle.policies.live.eligibility import OVER_S


def holding(context: Context, record: JobRecord, row: Job) -> Reason:
    if row.phase is Phase.RUNNING:
        return _running(context, record, row)
    if row.id in context.scheduler.paused and row.phase is not Phase.CANCELLING:
        return _paused(context, record, row)
    stuck, by = context.stuck(row.id), _by(context, row)
    if lost := _lost(context, record):
        resumable = row.spec.resumable
        return because("node-lost", nodes=lost, stuck=stuck, by=by, resumable=resumable)
    if row.phase is Phase.STARTING:
        return _starting(context, record, row, stuck)
    left_s = max(0.0, record.grace_s - (context.clock.now() - row.since_at))
    times = {"in_s": left_s, "grace_s": record.grace_s}
    return because("leaving", by=by, for_job=record.preempted_for, stuck=stuck, **times)


def _starting(context: Context, record: JobRecord, row: Job, stuck: str) -> Reason:
    if others := context.scheduler.in_the_way(row.id):
        return because("releasing", size=row.size, jobs=tuple(others))
    if record.resizing:
        live = "size" in record.changes
        return because("resizing", size=row.size, live=live, for_job=record.shrunk_for, stuck=stuck)
    return because("launching", stuck=stuck) if stuck else because("starting", size=row.size)


def _paused(context: Context, record: JobRecord, row: Job) -> Reason:
    """By whom or for whom it is paused, where its memory is, and who has its devices."""
    pause, now = record.pause, context.clock.now()
    if pause is None or row.allocation is None:
        return because("pausing")
    who: dict[str, Number] = {
        "by": pause.by,
        "for_job": "" if pause.by else pause.for_job,
        "how": str(pause.how),
    }
    if row.phase is not Phase.PAUSED:
        return because("pausing", **who)
    if pause.by and USER not in context.scheduler.blocked.get(row.id, ()):
        who = {"by": "", "for_job": "", "how": str(pause.how), "resumed": True}
    jobs = holders_of(context.scheduler.tenancy.tenants, row.allocation.devices)
    memory = {} if pause.memory_gib is None else {"memory_gib": pause.memory_gib}
    since_s = now - row.since_at if record.paused_s is None else now - record.paused_s
    return because(
        "paused",
        **who,
        **memory,
        since_s=since_s,
        devices=pause.devices,
        jobs=jobs,
        stuck=pause.stuck,
        closed=_closed(context, row.allocation.devices),
    )


def _closed(context: Context, devices: Sequence[Device]) -> str:
    """Why the first of them is closed that is; empty: none."""
    why = context.scheduler.closed
    return next((f"{device}: {why[device]}" for device in devices if device in why), "")


def _by(context: Context, row: Job) -> str:
    """Who stops it."""
    if row.phase is Phase.CANCELLING:
        return "cancel"
    # A release takes that back.
    return "user" if USER in context.scheduler.blocked.get(row.id, ()) else "policy"


def _lost(context: Context, record: JobRecord) -> tuple[str, ...]:
    """Which of its nodes were lost."""
    runs = [attempt_of(row.body) for row in context.jobs.open_of(record.id)]
    return tuple(dict.fromkeys(node for run in runs for node in run.lost))


def _running(context: Context, record: JobRecord, row: Job) -> Reason:
    now = context.clock.now()
    if row.over_at is not None:
        since_s = now - row.over_at
        return because("over", since_s=since_s, late=since_s >= OVER_S)
    if record.shrunk_for and row.size < row.spec.sizes[-1]:
        return because("shrunk", size=row.size, for_job=record.shrunk_for)
    if record.refused and row.grow_at > now:
        in_s = row.grow_at - now
        return because("not-grown", size=row.size, because=record.refused, in_s=in_s)
    return context.scheduler.why(row.id, now)
