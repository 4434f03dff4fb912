"""Shares that pack: counts that divide a node, whole nodes, at most one job across a node's edge.

AFS gives any number of devices; a network likes some better than others (Hwang et al., NSDI'21). A
count is legal if it divides the devices of a node or is a multiple of them. Legal counts that fit
pack so that no node carries more than one job that crosses nodes, if need be by moving small jobs.
Largest first finds that packing on nodes of up to eleven devices; on nodes of twelve, jobs of 6, 4
and 3 can leave a last one out, which then waits.
"""

from collections.abc import Mapping, Sequence

from treadle.core.allocation import Allocation
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.snapshot import Snapshot
from treadle.policies.base.placement import Consolidate

_PLACEMENT = Consolidate()  # whole nodes, then the fullest node that has room for the rest


def pack(snapshot: Snapshot, sizes: Mapping[JobId, int]) -> dict[JobId, Allocation]:
    """Devices for all these jobs, moving as few as it can; jobs of illegal sizes go last."""
    node = snapshot.cluster.largest_node
    jobs = [snapshot.jobs[identity] for identity in sizes]
    jobs.sort(key=lambda job: (-sizes[job.id], not job.size, job.sequence))
    kept = _Packing(snapshot.emptied(), node)
    if kept.fill(jobs, sizes, keep=True):
        return kept.allocations
    afresh = _Packing(snapshot.emptied(), node)
    afresh.fill(jobs, sizes, keep=False)
    return afresh.allocations


class _Packing:
    """An empty cluster that is filled from the largest job to the smallest."""

    def __init__(self, free: FreeDevices, node: int) -> None:
        self._free = free
        self._node = node
        self.allocations: dict[JobId, Allocation] = {}

    def fill(self, jobs: Sequence[Job], sizes: Mapping[JobId, int], *, keep: bool) -> bool:
        """Place all; whether all found room. Jobs keep their devices where that is asked for."""
        if keep:
            for job in jobs:
                held = job.allocation
                same = held is not None and held.size == sizes[job.id]
                if held is not None and same and self._tight(held):
                    self._give(job.id, held)
        complete = True
        for job in jobs:
            if job.id not in self.allocations:
                devices = _PLACEMENT.place(self._free, sizes[job.id])
                complete = complete and devices is not None
                if devices is not None:
                    self._give(job.id, Allocation(devices))
        return complete

    def _tight(self, held: Allocation) -> bool:
        """Whether what is held is in use and on as few nodes as can be; another policy may have
        left it scattered.
        """
        nodes_least = -(-held.size // self._node)
        return self._free.holds(held.devices) and len(held.nodes()) == nodes_least

    def _give(self, identity: JobId, allocation: Allocation) -> None:
        self._free.take(allocation.devices)
        self.allocations[identity] = allocation
