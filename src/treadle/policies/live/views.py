"""What a policy is shown of a plan: some of the jobs, on some of the devices."""

from collections.abc import Collection, Container

from treadle.core.cluster import Cluster, Device
from treadle.core.job import JobId
from treadle.core.snapshot import Snapshot
from treadle.policies.live.plan import Plan


def view(
    plan: Plan,
    mine: Collection[JobId],
    released: Collection[JobId],
    cluster: Cluster,
    withheld: Collection[Device],
) -> Snapshot:
    """These jobs, on what others leave, as if the released ones held nothing.

    cluster: these of the nodes alone. withheld: free devices that are not to be given out.
    """
    snapshot = plan.snapshot
    everything = len(mine) == len(snapshot.jobs) and cluster is snapshot.cluster
    if everything and not plan.changes and not withheld:
        return snapshot  # There is one level, one pool and nothing that is fixed.
    mine = {name for name in mine if plan.changes.get(name) is None}
    jobs = {
        name: row
        for name, row in snapshot.jobs.items()
        if name in mine or (row.allocation is not None and name not in released)
    }
    taken, tenants = _divided(plan, mine, released)
    hidden = {name for device in taken for name in tenants.pop(device, {}).values()}
    while hidden:  # One that shares a device with a job out of sight is out of sight.
        name = hidden.pop()
        mine.discard(name)
        held = plan.has(name)
        for device in () if held is None else held.devices:
            taken[device] = None
            hidden.update(tenants.pop(device, {}).values())
    ranking = snapshot.ranking.only(mine)
    free = snapshot.emptied()
    if tenants:
        free.take(tuple(tenants))
    if taken or withheld:
        free = free.withholding([d for d in (*taken, *withheld) if free.knows((d,))])
    if released:  # Devices that are free are given first.
        late = (plan.has(name) for name in released)
        free = free.leaving([d for held in late if held is not None for d in held.devices])
    seen = snapshot._replace(jobs=jobs, free=free, tenants=tenants, ranking=ranking)
    return seen if cluster is snapshot.cluster else _narrowed(seen, cluster)


def _divided(
    plan: Plan, mine: Container[JobId], released: Container[JobId]
) -> tuple[dict[Device, None], dict[Device, dict[int, JobId]]]:
    """Devices that are out of sight, and those that the jobs in sight hold."""
    snapshot = plan.snapshot
    taken: dict[Device, None] = {}
    tenants: dict[Device, dict[int, JobId]] = {}
    for device, own in snapshot.tenants.items():
        for turn, name in own.items():
            held = plan.has(name) if name in snapshot.jobs else None
            if name not in snapshot.jobs or name not in snapshot.ranking:
                taken[device] = None
            elif held is None or device not in held.devices or name in released:
                continue
            elif name in mine and name not in plan.changes:
                tenants.setdefault(device, {})[turn] = name
            else:
                taken[device] = None
    for name, new in plan.changes.items():
        if new is not None and name not in released:
            taken |= dict.fromkeys(new.devices)
    return taken, tenants


def _narrowed(seen: Snapshot, cluster: Cluster) -> Snapshot:
    """These nodes as a cluster of their own."""
    own = cluster.names
    return seen._replace(
        cluster=cluster,
        jobs={
            name: row
            for name, row in seen.jobs.items()
            if row.allocation is None or not own.isdisjoint(row.allocation.nodes())
        },
        free=seen.free.only(own),
        tenants={device: each for device, each in seen.tenants.items() if device.node in own},
    )
