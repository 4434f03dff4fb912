"""Policies that decide sizes: from a target size for each job to devices for it.

Jobs whose size stays keep their devices. Those that shrink keep what lies together, those that
grow stay on their nodes where there is room. Sizes are dealt with in the order given, so what
fragmentation denies is denied to the last.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import TypeVar

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies.base.placement import Fit, Placement

Key = TypeVar("Key", JobId, int)
Bid = tuple[float, int]  # the least first; then by the number


class Sharing(Policy):
    """What all policies that decide sizes have in common."""

    resizes = True

    def __init__(self, placement: Placement) -> None:
        self._placement, self.place = placement, placement.place
        self._fit = Fit(placement)

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        return self._fit.never(spec.sizes[0], cluster)

    def offers(self, job: Job) -> Sequence[int]:
        """Sizes worth giving to a job, ascending."""
        return job.spec.sizes

    def all_rigid(self, snapshot: Snapshot) -> bool:
        """Whether there is nothing to decide about sizes; the order alone then decides."""
        return all(len(job.spec.sizes) == 1 for job in snapshot.jobs.values())

    def nothing_to_do(self, snapshot: Snapshot) -> bool:
        """Whether no job waits and every job holds the most it can use."""
        return not snapshot.ranking.queue and all(
            job.size == job.spec.sizes[-1] for job in snapshot.holding()
        )

    def schedule(
        self,
        snapshot: Snapshot,
        sizes: Mapping[JobId, int],
        *,
        valid_until: float = inf,
        among: Iterable[Job] | None = None,
    ) -> Schedule:
        """Devices for exactly these jobs at these sizes, most important first.

        Holders that are not among those given, if any are, keep what they hold.
        """
        free = snapshot.free.copy()
        changes: dict[JobId, Allocation | None] = {}
        kept: set[JobId] = set()
        first: list[JobId] = []  # A node of theirs has to stay, for them to change without a stop.
        for job in self.stop_order(snapshot.holding() if among is None else among):
            identity, allocation = job.spec.id, job.allocation
            assert allocation is not None, "holding jobs hold"
            if sizes.get(identity) == len(allocation.devices):
                kept.add(identity)
            else:
                changes[identity] = None
                free.give(allocation.devices)
                if job.spec.profile.lead and identity in sizes:
                    first.append(identity)
        for identity in dict.fromkeys((*first, *sizes)) if first else sizes:
            if identity not in kept:
                size = sizes[identity]
                devices = self._devices(free, snapshot.jobs[identity], size)
                if devices is not None:
                    free.take(devices)
                    changes[identity] = Allocation(devices)
        return Schedule(changes, valid_until)

    def stop_order(self, holders: Iterable[Job]) -> Iterable[Job]:
        """Where devices are swapped in a circle, this decides who is stopped to untie it."""
        return holders

    def smallest_each(self, jobs: Sequence[Job], devices: int) -> tuple[dict[JobId, int], int]:
        """Each job's smallest size, in that order, while it fits, and how many devices are left."""
        sizes: dict[JobId, int] = {}
        for job in jobs:
            smallest = self.offers(job)[0]
            if smallest <= devices:
                sizes[job.id] = smallest
                devices -= smallest
        return sizes, devices

    def _devices(self, free: FreeDevices, job: Job, size: int) -> tuple[Device, ...] | None:
        """Near what it holds if that works, else anywhere, else at a smaller size."""
        if job.allocation is not None:
            mine = kept(free, job.allocation.devices, size, job.spec.profile.lead)
            if len(mine) == size:
                return mine
        for smaller in reversed([s for s in self.offers(job) if s <= size]):
            devices = self._placement.place(free, smaller)
            if devices is not None:
                return devices
        return None


def hand_out(
    sizes: dict[Key, int],
    free: int,
    offers: Callable[[Key], Sequence[int]],
    bid: Callable[[Key, int, int], Bid | None],
) -> None:
    """Free devices step by step, each step to the least bid while it fits.

    bid: of one that has so many devices, for its next larger size; None: it wants no more.
    """
    bids: list[tuple[Bid, int, Key]] = []

    def ask(one: Key, size: int) -> None:
        larger = next((offer for offer in offers(one) if offer > size), None)
        if larger is not None and (own := bid(one, size, larger)) is not None:
            heappush(bids, (own, larger, one))

    for one, size in sizes.items():
        ask(one, size)
    while bids and free > 0:
        _, larger, one = heappop(bids)
        if larger - sizes[one] <= free:
            free -= larger - sizes[one]
            sizes[one] = larger
            ask(one, larger)


def kept(
    free: FreeDevices, held: tuple[Device, ...], size: int, lead: str = ""
) -> tuple[Device, ...]:
    """Of the devices held and still free, the best together, and more from the same nodes.

    lead: a node on which one is to stay if it can, so that the job goes on without a restart.
    """
    mine = [device for device in held if free.holds((device,))]
    per_node = Counter(device.node for device in mine)
    mine.sort(key=lambda device: (-per_node[device.node], device.node, device.number))
    if lead in per_node:
        mine.sort(key=lambda device: device.node != lead)
    kept = mine[:size]
    if len(kept) < size:
        near = [device for device in _free_on(free, per_node) if device not in kept]
        kept += near[: size - len(kept)]
    return tuple(kept)


def _free_on(free: FreeDevices, nodes: Collection[str]) -> Iterable[Device]:
    """Free devices of these nodes. Most jobs are on one, and most of a cluster is elsewhere."""
    if len(nodes) > 1:
        return (device for device in free if device.node in nodes)
    devices = (Device(node, number) for node in nodes for number in range(free.largest))
    return (device for device in devices if free.holds((device,)))
