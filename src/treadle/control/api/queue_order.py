"""Which devices are free, and where each waiting job stands in the queue."""

from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler


def free_devices(scheduler: Scheduler) -> int:
    """How many devices a job could be given now."""
    free, closed = scheduler.tenancy.free, scheduler.closed
    if not closed:
        return free.total
    return sum(1 for device in free if device not in closed)


def in_queue(scheduler: Scheduler, identity: JobId) -> bool:
    """Whether a job waits and nothing blocks it."""
    row = scheduler.jobs.get(identity)
    waits = row is not None and row.phase is Phase.WAITING
    return waits and identity not in scheduler.blocked and identity not in scheduler.unfit


def positions(scheduler: Scheduler) -> dict[JobId, int]:
    """The position of every queued job, from 1: by priority, then in the policy's order."""
    jobs = scheduler.jobs
    line = [identity for _, _, identity in scheduler.ranking.queue]
    line.sort(key=lambda identity: -jobs[identity].spec.priority)
    return {identity: position for position, identity in enumerate(line, 1)}


def position(scheduler: Scheduler, identity: JobId) -> int | None:
    """The same of one job, without sorting."""
    if not in_queue(scheduler, identity):
        return None
    jobs, found, behind = scheduler.jobs, 1, False
    own = jobs[identity].spec.priority
    for _, _, other in scheduler.ranking.queue:
        behind = behind or other == identity
        priority = jobs[other].spec.priority
        found += priority > own or (priority == own and not behind)
    return found


def sharers(scheduler: Scheduler, job: Job) -> list[JobId]:
    """Every job on the devices of a job, itself included."""
    if job.allocation is None:
        return []
    tenants = scheduler.tenancy.tenants
    found = [tenants[device].values() for device in job.allocation.devices]
    return list(dict.fromkeys(name for names in found for name in names))
