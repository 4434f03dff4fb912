"""Devices for groups: where a member already is, else near it, else where there is room."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.snapshot import Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.base.shares import kept
from treadle.policies.base.turns import add_in_turns


class Wanted(NamedTuple):
    """A group that is to have devices."""

    size: int
    members: Sequence[Job]
    offers: Sequence[int]  # sizes that all its members can use, this one first, descending
    value: float = 0.0
    cost: float = 0.0  # of being moved from where most of it is


class Room:
    """Which sizes would find a place on these devices."""

    def __init__(self, free: FreeDevices, placement: Placement) -> None:
        self._free = free
        self._placement = placement
        self._known: dict[int, bool] = {}

    def fits(self, size: int) -> bool:
        known = self._known.get(size)
        if known is None:
            known = self._known[size] = self._placement.place(self._free, size) is not None
        return known


_Places = dict[int, tuple[Device, ...]]  # by a group's place in the list


def place(
    snapshot: Snapshot, placement: Placement, groups: Sequence[Wanted], others: Iterable[Wanted]
) -> dict[JobId, Allocation]:
    """Devices for groups, the more valuable ones first; what is then free goes to others that have
    none, each alone, in the order given.

    Groups stay where they are, unless others would be left without a place that are worth more
    than the moves cost.
    """
    places, free = _stay(snapshot, placement, groups)
    if len(places) < len(groups):
        anew, free_anew = _largest_first(snapshot, placement, groups)
        if _worth(groups, anew) > _worth(groups, places):
            places, free = anew, free_anew
    allocations: dict[JobId, Allocation] = {}
    for index, devices in places.items():
        add_in_turns(allocations, groups[index].members, devices)
    for group in others:
        if not free.total:
            break
        if group.offers[-1] <= free.total and group.members[0].id not in allocations:
            found = settle(free, placement, group)
            if found is not None:
                add_in_turns(allocations, group.members, found)
    return allocations


def _stay(
    snapshot: Snapshot, placement: Placement, groups: Sequence[Wanted]
) -> tuple[_Places, FreeDevices]:
    """Those first that can stay, then the larger ones."""
    free = snapshot.emptied()
    places: _Places = {}
    homeless: list[int] = []
    for index, group in enumerate(groups):
        devices = _claim_held(free, group)
        if devices is None:
            homeless.append(index)
        else:
            places[index] = devices
    homeless.sort(key=lambda index: -groups[index].size)
    for index in homeless:
        devices = _take(free, placement, groups[index])
        if devices is not None:
            places[index] = devices
    return places, free


def _largest_first(
    snapshot: Snapshot, placement: Placement, groups: Sequence[Wanted]
) -> tuple[_Places, FreeDevices]:
    """The larger ones first, each where it is if that is still free."""
    free = snapshot.emptied()
    places: _Places = {}
    for index in sorted(range(len(groups)), key=lambda index: -groups[index].size):
        devices = settle(free, placement, groups[index])
        if devices is not None:
            places[index] = devices
    return places, free


def settle(free: FreeDevices, placement: Placement, group: Wanted) -> tuple[Device, ...] | None:
    """Take devices for a group: where it is, near that, or anywhere."""
    return _claim_held(free, group) or _take(free, placement, group)


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
    for devices in sorted(held, key=lambda one: -held[one]) if len(held) > 1 else held:
        if free.claim(devices):
            return devices
    return None


def _take(free: FreeDevices, placement: Placement, group: Wanted) -> tuple[Device, ...] | None:
    """Take devices near what a member holds, else any, else for a smaller size."""
    devices = _near(free, group) or _anywhere(free, placement, group.offers)
    if devices is not None:
        free.take(devices)
    return devices


def _near(free: FreeDevices, group: Wanted) -> tuple[Device, ...] | None:
    for job in group.members:
        if job.allocation is not None:
            mine = kept(free, job.allocation.devices, group.size)
            if len(mine) == group.size:
                return mine
    return None


def _anywhere(
    free: FreeDevices, placement: Placement, sizes: Sequence[int]
) -> tuple[Device, ...] | None:
    """The first of these sizes, which descend, that there is room for."""
    for size in sizes:
        devices = placement.place(free, size)
        if devices is not None:
            return devices
    return None
