"""The smallest change that would start a waiting job, tried on a copy of the scheduler first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from treadle.control.api.context import Context
from treadle.control.api.job_progress import left_of
from treadle.control.api.queue_order import free_devices
from treadle.core.events import Event, JobSubmitted, JobUpdated
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.wording import are, devices, named_jobs, span
from treadle.wire.jobs import StartEstimate

NAMED_MAX = 3


def remedy(context: Context, row: Job, start: StartEstimate | None) -> str:
    """What would help: fewer devices, then a higher priority, then time.

    start: when it is expected to start. An end after that is nothing to wait for.
    """
    found = _fewer(context, row) or _higher(context, row)
    if found or start is None or start.latest_s is None:
        return found
    return _next_end(context, row, start.latest_s)


def _fewer(context: Context, row: Job) -> str:
    free = free_devices(context.scheduler)
    if not 0 < free < row.spec.sizes[0]:
        return ""
    other = f"{row.id}.smaller"
    smaller = replace(row.spec, id=other, sizes=(free,), asked=free)
    if _after(context, [JobSubmitted(smaller)], other) is None:
        return ""
    return f"submitted with --devices {free} it would start now"


def _higher(context: Context, row: Job) -> str:
    scheduler = context.scheduler
    rivals = [scheduler.jobs[identity].spec.priority for _, _, identity in scheduler.ranking.queue]
    rivals += [
        job.spec.priority
        for job in scheduler.jobs.values()
        if job.phase is Phase.RUNNING and job.spec.resumable
    ]
    wanted = max([row.spec.priority, *rivals]) + 1
    twin = _after(context, [JobUpdated(replace(row.spec, priority=wanted))], row.id)
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
    return f"{order} and stops {named_jobs(stopped, NAMED_MAX)}"


def _after(context: Context, events: Sequence[Event], job: JobId) -> Scheduler | None:
    """A copy of the scheduler after these events and a decision, if the job then has devices."""
    twin = context.scheduler.fork()
    now = context.clock.now()
    try:
        twin.take(events, now)
        twin.decide(now)
    except Exception:  # a third party's policy may raise anything; then there is no known remedy
        return None
    return twin if twin.jobs[job].allocation is not None else None


class _Freed(NamedTuple):
    """Devices that come free, and the job whose end frees them."""

    in_s: float
    last: JobId  # of the jobs on each of them, the one that ends last
    devices: int


def _next_end(context: Context, row: Job, within_s: float) -> str:
    """Whose ends would free enough devices first, if that is expected in time."""
    needed = row.spec.sizes[0] - free_devices(context.scheduler)
    names, count, in_s = [], 0, 0.0
    for freed in sorted(_to_be_freed(context)):
        if count >= needed:
            break
        names.append(freed.last)
        count, in_s = count + freed.devices, freed.in_s
    if not names or not 0 < needed <= count or in_s > within_s:
        return ""
    who = f"{named_jobs(names, NAMED_MAX)} {are(len(names))} expected to end"
    when = "any moment" if in_s < 1 else f"{'in' if len(names) == 1 else 'within'} about "
    when += "" if in_s < 1 else span(in_s)
    return f"wait: {who} {when}, which frees {devices(count)}"


def _to_be_freed(context: Context) -> Iterator[_Freed]:
    """When devices come free, of those whose jobs all have a known end."""
    ends: dict[JobId, float] = {}
    for job in context.scheduler.jobs.values():
        record = context.jobs.records.get(job.id)
        if job.phase is Phase.RUNNING and record is not None:
            left = left_of(context, record, job)
            if left is not None:
                ends[job.id] = left.at(0.5)
    freed: Counter[JobId] = Counter()
    for tenants in context.scheduler.tenancy.tenants.values():
        members = set(tenants.values())
        if members and all(name in ends for name in members):
            freed[max(members, key=lambda name: (ends[name], name))] += 1
    for last, count in freed.items():
        yield _Freed(ends[last], last, count)
