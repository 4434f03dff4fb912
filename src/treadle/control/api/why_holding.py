"""Why a job that holds devices, or releases them, stands where it does."""

from treadle.control.api.context import Context
from treadle.control.api.queue_order import sharers
from treadle.control.api.reasons import because
from treadle.control.jobs import USER, JobRecord, attempt_of
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason
from treadle.policies.live.eligibility import OVER_S


def holding(context: Context, record: JobRecord, row: Job) -> Reason:
    match row.phase:
        case Phase.STARTING:
            return _starting(context, record, row)
        case Phase.STOPPING | Phase.CANCELLING:
            return _stopping(context, record, row)
        case _:
            return _running(context, record, row)


def _starting(context: Context, record: JobRecord, row: Job) -> Reason:
    if lost := _lost(context, record):
        return _node_lost(context, record, row, lost)
    if others := context.scheduler.in_the_way(row.id):
        return because("releasing", size=row.size, jobs=tuple(others))
    stuck = context.stuck(row.id)
    if not record.resizing:
        return (
            because("launching", stuck=stuck) if stuck else Reason("starting", {"size": row.size})
        )
    live = "size" in record.changes
    return because("resizing", size=row.size, live=live, for_job=record.shrunk_for, stuck=stuck)


def _stopping(context: Context, record: JobRecord, row: Job) -> Reason:
    by = "policy"
    if row.phase is Phase.CANCELLING:
        by = "cancel"
    elif USER in context.scheduler.blocked.get(record.id, ()):
        by = "user"  # A release takes that back.
    if lost := _lost(context, record):
        return _node_lost(context, record, row, lost, by="" if by == "policy" else by)
    return because(
        "leaving",
        by=by,
        for_job=record.preempted_for,
        in_s=max(0.0, record.grace_s - (context.clock.now() - row.since_at)),
        grace_s=record.grace_s,
        stuck=context.stuck(row.id),
    )


def _lost(context: Context, record: JobRecord) -> tuple[str, ...]:
    """Which of its nodes were lost."""
    runs = [attempt_of(row.body) for row in context.jobs.open_of(record.id)]
    return tuple(dict.fromkeys(node for run in runs for node in run.lost))


def _node_lost(
    context: Context, record: JobRecord, row: Job, lost: tuple[str, ...], by: str = ""
) -> Reason:
    stuck, resumable = context.stuck(record.id), row.spec.resumable
    return because("node-lost", nodes=lost, stuck=stuck, by=by, resumable=resumable)


def _running(context: Context, record: JobRecord, row: Job) -> Reason:
    now = context.clock.now()
    if row.over_at is not None:
        since_s = now - row.over_at
        return because("over", since_s=since_s, late=since_s >= OVER_S)
    if record.shrunk_for and row.size < row.spec.sizes[-1]:
        return Reason("shrunk", {"size": row.size, "for_job": record.shrunk_for})
    return context.scheduler.why(row.id, now)


def beside(context: Context, row: Job) -> tuple[JobId, ...]:
    """The other jobs on its devices."""
    return tuple(name for name in sharers(context.scheduler, row) if name != row.id)
