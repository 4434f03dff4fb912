"""Snapshots as an inner policy is to see them, and what its decision amounts to."""

from collections.abc import Collection, Mapping

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL
from treadle.core.snapshot import Snapshot

Changes = Mapping[JobId, Allocation | None]


def letting_go(snapshot: Snapshot, jobs: Collection[Job]) -> Snapshot:
    """As if these jobs waited and their devices, which no other job shares, were free."""
    if not jobs:
        return snapshot
    free, ranking = snapshot.free.copy(), snapshot.ranking.copy()
    rows, tenants = dict(snapshot.jobs), dict(snapshot.tenants)
    for job in jobs:
        assert job.allocation is not None, "only a job that holds devices can release them"
        free.give(job.allocation.devices)
        for device in job.allocation.devices:
            del tenants[device]
        rows[job.id] = row = let_go(job, snapshot.now)
        ranking.put(row, snapshot.now)
    return snapshot._replace(jobs=rows, free=free, tenants=tenants, ranking=ranking)


def let_go(job: Job, now: float) -> Job:
    """The job as if it had lost its devices and waited."""
    row = job.settled(now)
    return row._replace(phase=Phase.WAITING, since_at=now, allocation=None, iterations_per_s=0.0)


def free_after(snapshot: Snapshot, changes: Changes) -> FreeDevices:
    """The devices that no job holds once these changes are made."""
    tenants, jobs = snapshot.tenants, snapshot.jobs
    holders: dict[Device, int] = {}
    for identity, new in changes.items():
        for allocation, step in ((jobs[identity].allocation, -1), (new, 1)):
            for device in () if allocation is None else allocation.devices:
                if device not in holders:
                    holders[device] = len(tenants.get(device, ()))
                holders[device] += step
    free = snapshot.free.copy()
    given = [d for d, count in holders.items() if not count and d in tenants]
    taken = [d for d, count in holders.items() if count and d not in tenants]
    if given:
        free.give(given)
    if taken:
        free.take(taken)
    return free


def starts(snapshot: Snapshot, changes: Changes) -> dict[JobId, Allocation]:
    """Jobs that wait and would be given devices."""
    jobs = snapshot.jobs
    return {
        identity: allocation
        for identity, allocation in changes.items()
        if allocation is not None and jobs[identity].allocation is None
    }


def taking_free(snapshot: Snapshot, changes: Changes) -> list[JobId]:
    """Of the jobs that would start, those that are not only given what others go on holding."""
    held: set[Device] = set()
    found: list[JobId] = []
    for identity, new in starts(snapshot, changes).items():
        if any(d not in held and not _stays_held(snapshot, changes, d) for d in new.devices):
            found.append(identity)
            held.update(new.devices)
    return found


def _stays_held(snapshot: Snapshot, changes: Changes, device: Device) -> bool:
    """Whether a job that holds the device does so after these changes."""
    for identity in snapshot.on([device]):
        now_held = changes.get(identity, snapshot.jobs[identity].allocation)
        if now_held is not None and device in now_held.devices:
            return True
    return False


def plain(spec: JobSpec) -> bool:
    """Whether a wrapper can start the job itself; which of its plans is best, policies know."""
    return DATA_PARALLEL in spec.plans
