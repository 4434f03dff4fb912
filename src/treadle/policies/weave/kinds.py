"""Kinds of devices: GPUs and CPU slots are two clusters, each with speeds of its own.

A model tells CPU slots from all other devices (models/workers.py), so these are the kinds. A job's
speed on a kind is what the belief says of devices of that kind, placed as well as can be.
"""

from collections.abc import Iterable
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobSpec
from treadle.core.ports import PerformanceModel
from treadle.core.ranking import Ranker, Ranking
from treadle.core.snapshot import Snapshot
from treadle.models.workers import is_cpu_only, takes_slots
from treadle.policies.base.placement import Count, Placement
from treadle.policies.weave.curve import Alone
from treadle.policies.weave.racks import WithinRacks
from treadle.policies.wrappers.views import let_go

GPUS, SLOTS = "GPU", "CPU slot"


class Kind(NamedTuple):
    """Nodes whose devices are alike."""

    name: str
    nodes: frozenset[str]
    cluster: Cluster

    def suits(self, spec: JobSpec) -> bool:
        """Whether a job may use devices of this kind; one whose user named no types may."""
        if not spec.device_types:
            return True
        return takes_slots(spec) if self.name == SLOTS else not is_cpu_only(spec)

    def part(self, allocation: Allocation | None) -> tuple[Device, ...]:
        """Those of the devices that are of this kind."""
        if allocation is None:
            return ()
        return tuple(device for device in allocation.devices if device.node in self.nodes)


def kinds_of(cluster: Cluster) -> tuple[Kind, ...]:
    """The kinds of devices in a cluster: GPUs first, then CPU slots."""
    slots = frozenset(node.name for node in cluster.nodes if node.has_slots)
    others = frozenset(node.name for node in cluster.nodes) - slots
    found = []
    for name, own, foreign in ((GPUS, others, slots), (SLOTS, slots, others)):
        if own:
            found.append(Kind(name, own, cluster.without(foreign) if foreign else cluster))
    return tuple(found)


def whole(cluster: Cluster) -> Kind:
    """All devices of a cluster, if they are of one kind."""
    return Kind("device", frozenset(node.name for node in cluster.nodes), cluster)


def speeds_on(kind: Kind, belief: PerformanceModel, placement: Placement) -> Alone:
    """A job's speed on so many devices of a kind; 0 if there are fewer."""
    free = FreeDevices.of(kind.cluster)
    placement = WithinRacks(placement, kind.cluster)
    known: dict[int, Allocation | None] = {}

    def alone(spec: JobSpec, size: int) -> float:
        if size not in known:
            devices = placement.place(free, size) or Count().place(free, size)
            known[size] = None if devices is None else Allocation(devices)
        allocation = known[size]
        return 0.0 if allocation is None else belief.iterations_per_s(spec, allocation, ())

    return alone


def view(
    snapshot: Snapshot, kind: Kind, jobs: Iterable[Job], *, rank: Ranker, memory: object
) -> Snapshot:
    """The devices of one kind as a cluster of their own, with these jobs and no others.

    jobs: those that wait in the policy's order. One that holds only devices of other kinds waits
    from now on, as this kind sees it.
    """
    now = snapshot.now
    rows = {job.id: _seen(job, kind, now) for job in jobs}
    free = snapshot.free.only(kind.nodes)
    tenants = {}
    for device, turns in snapshot.tenants.items():
        if device.node in kind.nodes:
            stay = {turn: job for turn, job in turns.items() if job in rows}
            if stay:
                tenants[device] = stay
            else:
                free.give((device,))
    ranking = Ranking(rank)
    for row in rows.values():
        ranking.put(row, now)
    return Snapshot(now, kind.cluster, rows, free, tenants, ranking, memory)


def _seen(job: Job, kind: Kind, now: float) -> Job:
    held = job.allocation
    if held is None:
        return job
    own = kind.part(held)
    if len(own) == len(held.devices):
        return job
    if own:  # The others are lent to it.
        return job.settled(now)._replace(allocation=Allocation(own, turn=held.turn))
    return let_go(job, now)
