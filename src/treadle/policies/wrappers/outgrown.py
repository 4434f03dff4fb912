"""Which running job would go on with more devices of another type than it has of its own.

One job at a time, the same one each time that it is asked within a decision: `pays` and `steady`
hide a job that they leave alone and decide again, and are not to be offered one after another.
"""

from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Snapshot
from treadle.policies.wrappers.pays import UNKNOWN_S
from treadle.policies.live.pools import Pool

FASTER = 1.02  # a job is not moved for less
COSTS = 3.0  # restarts that a move must save: how fast it is on that type may not be known


def outgrown(snapshot: Snapshot, pool: Pool, free: int, belief: PerformanceModel) -> Job | None:
    """The job that gains most by so many free devices of a pool."""
    most_s, best = 0.0, None
    for job in snapshot.jobs.values():
        if not _could_move(job, snapshot, pool):
            continue
        size = max((each for each in job.spec.sizes if job.size < each <= free), default=0)
        saved_s = _saved_s(job, size, snapshot.now, belief) if size else 0.0
        if saved_s > most_s and saved_s > _costs_s(job):
            most_s, best = saved_s, job
    return best


def saves_enough(job: Job, size: int, now: float, belief: PerformanceModel) -> bool:
    """Whether so many devices of another type are worth a move to a running job."""
    return _saved_s(job, size, now, belief) > _costs_s(job)


def _costs_s(job: Job) -> float:
    return COSTS * (job.spec.profile.restart_s or UNKNOWN_S)


def _could_move(job: Job, snapshot: Snapshot, pool: Pool) -> bool:
    """Whether a running job may go on in a pool where it is not."""
    held = job.allocation
    if held is None or job.phase is not Phase.RUNNING or job.over_at is not None:
        return False
    if not (job.spec.resumable and job.spec.elastic) or not pool.nodes.isdisjoint(held.nodes()):
        return False
    shared = any(len(snapshot.tenants.get(device, ())) > 1 for device in held.devices)
    return not shared and pool.is_open(job, snapshot.cluster)


def _saved_s(job: Job, size: int, now: float, belief: PerformanceModel) -> float:
    """The seconds by which it would end earlier, by its speeds with so many devices."""
    speed = job.iterations_per_s or belief.alone(job.spec, job.size)
    ratio = belief.alone(job.spec, job.size) / belief.alone(job.spec, size)
    return job.remaining_at(now) / speed * (1.0 - ratio) if speed > 0 else 0.0
