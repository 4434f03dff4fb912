"""The smallest change that would let a waiting job run, tried out on a twin before it is said."""

from collections.abc import Sequence
from dataclasses import replace

from treadle.control.jobs.desk import Desk
from treadle.core.events import Event, JobSubmitted, JobUpdated
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.wording import listed, span

NAMED_MAX = 3


def remedy(desk: Desk, row: Job) -> str:
    """What would help: fewer devices, then a higher priority, then time."""
    return _fewer(desk, row) or _higher(desk, row) or _next_end(desk)


def _fewer(desk: Desk, row: Job) -> str:
    free = desk.free
    if not 0 < free < row.spec.sizes[0]:
        return ""
    other = f"{row.id}.smaller"
    smaller = replace(row.spec, id=other, sizes=(free,), asked=free)
    if _after(desk, [JobSubmitted(smaller)], other) is None:
        return ""
    return f"submitted with --devices {free} it would start now"


def _higher(desk: Desk, row: Job) -> str:
    scheduler = desk.scheduler
    rivals = [scheduler.jobs[identity].spec.priority for _, _, identity in scheduler.ranking.queue]
    rivals += [
        job.spec.priority
        for job in scheduler.jobs.values()
        if job.phase is Phase.RUNNING and job.spec.resumable
    ]
    wanted = max([row.spec.priority, *rivals]) + 1
    twin = _after(desk, [JobUpdated(replace(row.spec, priority=wanted))], row.id)
    if twin is None:
        return ""
    stopped = [
        name
        for name, job in twin.jobs.items()
        if job.allocation is None and scheduler.jobs[name].allocation is not None
    ]
    admins = " (for admins)" if wanted > 0 else ""
    order = f"treadle priority {row.id} {wanted}{admins} starts it now"
    if not stopped:
        return order
    return f"{order} and stops job{'s' * (len(stopped) > 1)} {listed(stopped, NAMED_MAX)}"


def _after(desk: Desk, events: Sequence[Event], job: JobId) -> Scheduler | None:
    """The twin that was told this and has decided, if the job then has devices."""
    twin = desk.scheduler.fork()
    now = desk.clock.now()
    try:
        twin.take(events, now)
        twin.decide(now)
    except Exception:  # a third party's policy may raise anything; then nothing is known to help
        return None
    return twin if twin.jobs[job].allocation is not None else None


def _next_end(desk: Desk) -> str:
    """Who is expected to let go next, if that is known of anybody."""
    now = desk.clock.now()
    ends = [
        (job.remaining_at(now) / job.iterations_per_s, job.id)
        for job in desk.scheduler.jobs.values()
        if job.phase is Phase.RUNNING
        and job.iterations_per_s > 0
        and (record := desk.records.get(job.id)) is not None
        and record.known
    ]
    if not ends:
        return ""
    left_s, identity = min(ends)
    return f"nothing but time: job {identity} is expected to end next, in about {span(left_s)}"
