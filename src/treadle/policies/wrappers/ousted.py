"""Jobs that ran out of device memory beside others run again first, and alone.

The scheduler put the jobs together, so the one that lost its attempt must not pay for it. It goes
before all waiting jobs of no higher priority: on free devices, or else on those of the jobs beside
which it failed, if all that run there can resume. Where they cannot, no job joins them before it
has run.
"""

from collections.abc import Iterator

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.snapshot import Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.base.suited import place
from treadle.policies.wrappers.reservation import reservations
from treadle.policies.wrappers.views import Changes, plain, starts

OwnChanges = dict[JobId, Allocation | None]


def run_again(snapshot: Snapshot, placement: Placement) -> tuple[Snapshot, OwnChanges]:
    """What the inner policy is to see, and the changes by which such jobs run again."""
    changes: OwnChanges = {}
    ousted = list(_ousted(snapshot))
    if not ousted or reservations(snapshot.memory):
        return snapshot, changes
    highest = max(job.spec.priority for job in snapshot.waiting())
    seen = snapshot
    for job in ousted:
        if job.spec.priority < highest or not plain(job.spec):
            continue
        devices = _free(seen, job, placement)
        if devices is not None:
            seen = seen.hiding([job.id]).withholding(devices)
        else:
            makes_way = _makes_way(seen, job)
            if not makes_way:
                continue
            assert makes_way[0].allocation is not None, "it holds devices"
            devices = makes_way[0].allocation.devices
            seen = seen.hiding([job.id]).keeping(makes_way)
            changes |= {other.id: None for other in makes_way}
        changes[job.id] = Allocation(devices)
    return seen, changes


def awaited(snapshot: Snapshot, changes: Changes) -> dict[JobId, JobId]:
    """Jobs that no other may join, each with the job that runs next instead."""
    return {
        other: job.id
        for job in _ousted(snapshot)
        if changes.get(job.id) is None
        for other in job.spec.ousted_by
    }


def without_company(snapshot: Snapshot, changes: Changes) -> dict[JobId, Allocation | None]:
    """The changes less starts beside jobs that no other may join."""
    kept = dict(changes)
    closed: set[Device] = set()
    for other in awaited(snapshot, changes):
        row = snapshot.jobs.get(other)
        if row is not None and row.allocation is not None and other not in changes:
            closed.update(row.allocation.devices)
    for identity, allocation in starts(snapshot, changes).items() if closed else ():
        if not closed.isdisjoint(allocation.devices):
            del kept[identity]
    return kept


def _ousted(snapshot: Snapshot) -> Iterator[Job]:
    """Jobs that wait to run again."""
    for job in snapshot.waiting():
        if job.spec.ousted_by and job.ready_at <= snapshot.now:
            yield job


def _free(snapshot: Snapshot, job: Job, placement: Placement) -> tuple[Device, ...] | None:
    """Free devices, as many as it asked for if there are so many; None: too few."""
    sizes = [size for size in reversed(job.spec.sizes) if size <= job.spec.asked]
    cluster = snapshot.cluster
    found = (
        place(job, size, snapshot.free, cluster=cluster, placement=placement) for size in sizes
    )
    return next((devices for devices in found if devices is not None), None)


def _makes_way(snapshot: Snapshot, job: Job) -> list[Job]:
    """The jobs to stop, so that this one gets the devices on which it failed; none: it waits."""
    visible = {other.id for other in snapshot.holding()}
    usable: set[Device] = set()
    for name in job.spec.ousted_by:
        row = snapshot.jobs.get(name)
        if name not in visible or row is None or row.allocation is None:
            continue
        devices = row.allocation.devices
        turns = snapshot.tenants.get(devices[0], {})
        members = [row, *(snapshot.jobs[other] for other in turns.values() if other != name)]
        usable = usable or set(snapshot.emptied())
        if (
            job.spec.runs_on(len(devices))
            and usable.issuperset(devices)
            and all(snapshot.tenants.get(device) == turns for device in devices)
            and all(_gives_way(other, job) and other.id in visible for other in members)
        ):
            return members
    return []


def _gives_way(other: Job, job: Job) -> bool:
    return other.spec.resumable and other.spec.priority <= job.spec.priority
