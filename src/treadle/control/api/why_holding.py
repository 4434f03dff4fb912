"""Why a job that holds devices, or releases them, stands where it does."""

from collections.abc import Sequence
from typing import NamedTuple

from treadle.control.api.context import Context
from treadle.control.api.job_progress import progress_of
from treadle.control.api.nodes_away import on_drained
from treadle.control.api.queue_order import sharers
from treadle.control.api.sizes import scaling_doubt, why_small
from treadle.control.jobs import USER, JobRecord, attempt_of
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.wording import devices, listed, named_jobs, share, span
from treadle.policies.live.eligibility import OVER_S

NAMED_MAX = 4  # jobs, devices and nodes


class Finding(NamedTuple):
    """A reason, and what is known to help without trying."""

    cause: str
    because: str
    change: str = ""
    never: bool = False  # waiting does not help


def holding(context: Context, record: JobRecord, row: Job) -> Finding:
    match row.phase:
        case Phase.STARTING:
            return _starting(context, record, row)
        case Phase.STOPPING | Phase.CANCELLING:
            return _stopping(context, record, row)
        case _:
            return _running(context, record, row)


def _starting(context: Context, record: JobRecord, row: Job) -> Finding:
    cause = "resizing" if record.resizing else "starting"
    if loss := _loss(context, record):
        return Finding(cause, f"{loss}; then it runs again on {devices(row.size)}, {_from(row)}")
    others = context.scheduler.in_the_way(row.id)
    if others:
        whose = named_jobs(others, NAMED_MAX)
        return Finding("starting", f"it waits for {whose} to release {_the(row.size)}")
    if stuck := context.stuck(row.id):
        return Finding(cause, stuck)
    if record.resizing:
        # An attempt that can be changed while it runs is, unless something comes between.
        how = "changing to" if "size" in record.changes else "restarting on"
        return Finding(cause, f"it is {how} {devices(row.size)}")
    return Finding(cause, f"its processes are being launched on {devices(row.size)}")


def _stopping(context: Context, record: JobRecord, row: Job) -> Finding:
    ordered, cause = "", "stopping"
    if row.phase is Phase.CANCELLING:
        ordered = "it was cancelled"
    elif USER in context.scheduler.blocked.get(record.id, ()):
        ordered, cause = "its user holds it", "held"  # A release takes that back.
    if loss := _loss(context, record):
        text = f"{ordered}; {loss}" if ordered else f"{loss}; then it runs again, {_from(row)}"
        return Finding(cause, text)
    how = ordered or "it is preempted and will resume later"
    if stuck := context.stuck(row.id):
        return Finding(cause, f"{how}; {stuck}")
    left_s = record.grace_s - (context.clock.now() - row.since_at)
    if left_s > 0:
        return Finding(cause, f"{how}; it has {span(left_s)} left to end by itself")
    return Finding(cause, f"{how}; its {record.grace_s:g} s of grace are over, and it is killed")


def _loss(context: Context, record: JobRecord) -> str:
    """Which of its nodes were lost, and what it waits for; empty if none was."""
    runs = [attempt_of(row.body) for row in context.jobs.open_of(record.id)]
    lost = list(dict.fromkeys(node for run in runs for node in run.lost))
    if not lost:
        return ""
    were = f"node {lost[0]} was" if len(lost) == 1 else f"nodes {listed(lost, NAMED_MAX)} were"
    return f"{were} lost; {context.stuck(record.id) or 'what is left of it is being stopped'}"


def _from(row: Job) -> str:
    """Where it goes on."""
    if row.spec.resumable:
        return "from the newest checkpoint that is left, if there is one"
    return "from the beginning: it is not resumable"


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
        text += f"; {company_text(row.size, others)}"
    if drained := on_drained(context, row):
        text += f"; {drained}"
    if stuck := context.stuck(row.id):
        text += f"; {stuck}"
    text += scaling_doubt(context, row)
    return Finding("running", text)


def beside(context: Context, row: Job) -> tuple[JobId, ...]:
    """The other jobs on its devices."""
    return tuple(name for name in sharers(context.scheduler, row) if name != row.id)


def company_text(size: int, others: Sequence[JobId]) -> str:
    return f"it shares {_the(size)} with {named_jobs(others, NAMED_MAX)}" if others else ""


def _the(count: int) -> str:
    return "its device" if count == 1 else "its devices"
