"""Devices for groups: where a member already is, else near it, else where there is room."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.snapshot import Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.base.shares import kept
from treadle.policies.base.turns import add_in_turns


class WithinRacks(Placement):
    """Another placement, but not across racks if one of them has room on as few nodes.

    The rack with the fewest free devices is taken, so that others stay free for larger jobs.
    """

    def __init__(self, inner: Placement, cluster: Cluster) -> None:
        self._inner = inner
        self._rack = cluster.rack_of()
        self._nodes: dict[str, set[str]] = {}
        for node, rack in self._rack.items():
            self._nodes.setdefault(rack, set()).add(node)
        self.several = len(self._nodes) > 1

    def place(self, free: FreeDevices, size: int) -> tuple[Device, ...] | None:
        found = self._inner.place(free, size)
        if found is None or not self.several:
            return found
        nodes = {device.node for device in found}
        if len({self._rack.get(node) for node in nodes}) == 1:
            return found
        racks = (free.only(rack) for rack in self._nodes.values())
        for rack in sorted((one for one in racks if one.total >= size), key=lambda one: one.total):
            inside = self._inner.place(rack, size)
            if inside is not None and len({device.node for device in inside}) <= len(nodes):
                return inside
        return found


class Wanted(NamedTuple):
    """A group that is to have devices."""

    size: int
    members: Sequence[Job]
    offers: Sequence[int]  # sizes that all its members can use, this one first, descending
    value: float = 0.0
    cost: float = 0.0  # of being moved from where most of it is


_Places = dict[int, tuple[Device, ...]]  # by a group's place in the list


def place(
    snapshot: Snapshot, placement: Placement, groups: Sequence[Wanted], others: Iterable[Wanted]
) -> dict[JobId, Allocation]:
    """Devices for groups, the more valuable ones first; what is then free goes to others that have
    none, each alone, in the order given.

    Groups stay where they are, unless others would be left without a place that are worth more
    than the moves cost.
    """
    places, free = _placed(snapshot, placement, groups, stay=True)
    if len(places) < len(groups):
        anew, free_anew = _placed(snapshot, placement, groups, stay=False)
        if _worth(groups, anew) > _worth(groups, places):
            places, free = anew, free_anew
    allocations: dict[JobId, Allocation] = {}
    for index, devices in places.items():
        add_in_turns(allocations, groups[index].members, devices)
    for group in others:
        if not free.total:
            break
        if group.offers[-1] <= free.total and group.members[0].id not in allocations:
            found = _claim_held(free, group) or _take(free, placement, group)
            if found is not None:
                add_in_turns(allocations, group.members, found)
    return allocations


def _placed(
    snapshot: Snapshot, placement: Placement, groups: Sequence[Wanted], *, stay: bool
) -> tuple[_Places, FreeDevices]:
    """The larger ones first, each where it is if that is still free. stay: before those, every
    group that can stay where it is, or keeps a node without which its job would restart."""
    free = snapshot.emptied()
    places: _Places = {}
    for index, group in enumerate(groups if stay else ()):
        devices = _claim_held(free, group)
        if devices is not None:
            places[index] = devices
    order = sorted(range(len(groups)), key=lambda index: -groups[index].size)
    if stay:
        order.sort(
            key=lambda index: not any(job.spec.profile.lead for job in groups[index].members)
        )
    for index in order:
        if index not in places:
            devices = None if stay else _claim_held(free, groups[index])
            devices = devices or _take(free, placement, groups[index])
            if devices is not None:
                places[index] = devices
    return places, free


def _worth(groups: Sequence[Wanted], places: _Places) -> float:
    """What the groups that have a place get done, less what moves cost."""
    total = 0.0
    for index, devices in places.items():
        group = groups[index]
        stays = any(
            job.allocation is not None and job.allocation.devices == devices
            for job in group.members
        )
        total += group.value if stays else group.value - group.cost
    return total


def _claim_held(free: FreeDevices, group: Wanted) -> tuple[Device, ...] | None:
    """Take what most of the members hold, if it is of this size and no other group has it."""
    held: dict[tuple[Device, ...], int] = {}
    for job in group.members:
        if job.allocation is not None and len(job.allocation.devices) == group.size:
            held[job.allocation.devices] = held.get(job.allocation.devices, 0) + 1
    for devices in sorted(held, key=lambda one: -held[one]):
        if free.claim(devices):
            return devices
    return None


def _take(free: FreeDevices, placement: Placement, group: Wanted) -> tuple[Device, ...] | None:
    """Take devices near what a member holds, else any, else for a smaller size."""
    near = (
        kept(free, job.allocation.devices, group.size, job.spec.profile.lead)
        for job in group.members
        if job.allocation is not None
    )
    devices = next((mine for mine in near if len(mine) == group.size), None)
    if devices is None:
        anywhere = (placement.place(free, size) for size in group.offers)
        devices = next((found for found in anywhere if found is not None), None)
    if devices is not None:
        free.take(devices)
    return devices
