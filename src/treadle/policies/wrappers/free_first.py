"""Free devices first: of two schedules that start the same jobs, the one that moves fewer others.

A wrapper that shows a policy devices as free that other jobs hold cannot say which of them cost a
restart. Here starts are moved from such devices to ones of the same node that really are free, so
that the jobs there stay where they are.
"""

from collections.abc import Iterator
from dataclasses import replace

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import JobId
from treadle.core.snapshot import Snapshot
from treadle.policies.wrappers.views import Changes, starts


def free_first(snapshot: Snapshot, changes: Changes) -> dict[JobId, Allocation | None]:
    """These changes, with no job moved or stopped for a device where a free one would do.

    Jobs that share devices by turns stay where the policy put them.
    """
    after = dict(changes)
    for starter, allocation in starts(snapshot, changes).items():
        for device in allocation.devices:
            holder = _displaced(snapshot, after, device)
            spare = None if holder is None else _spare(snapshot, after, device, starter, holder)
            if holder is None or spare is None:
                continue
            _swap(after, starter, device, spare)
            if after[holder] is not None:
                _swap(after, holder, spare, device)
            _keep(snapshot, after, holder)
    return after


def _displaced(snapshot: Snapshot, after: Changes, device: Device) -> JobId | None:
    """The job that has a device to itself now, and is to leave it."""
    tenants = snapshot.tenants.get(device, {})
    if len(tenants) != 1:
        return None
    (holder,) = tenants.values()
    if holder not in after or holder not in snapshot.jobs:
        return None
    before, new = snapshot.jobs[holder].allocation, after[holder]
    if before is None or any(len(snapshot.tenants.get(each, ())) > 1 for each in before.devices):
        return None
    return holder if new is None or device not in new.devices else None


def _spare(
    snapshot: Snapshot, after: Changes, device: Device, starter: JobId, holder: JobId
) -> Device | None:
    """A free device beside it, unused or meant for the job that would be displaced."""
    given: dict[Device, set[JobId]] = {}
    for job, new in after.items():
        for each in () if new is None else new.devices:
            given.setdefault(each, set()).add(job)
    for job in (starter, holder):
        own = after[job]
        if own is not None and (own.turn or any(len(given[each]) > 1 for each in own.devices)):
            return None
    return next(
        (spare for spare in _free_beside(snapshot, device) if given.get(spare, set()) <= {holder}),
        None,
    )


def _free_beside(snapshot: Snapshot, device: Device) -> Iterator[Device]:
    return (each for each in snapshot.free if each.node == device.node)


def _swap(after: dict[JobId, Allocation | None], job: JobId, device: Device, other: Device) -> None:
    allocation = after[job]
    if allocation is not None:
        moved = tuple(other if each == device else each for each in allocation.devices)
        after[job] = replace(allocation, devices=moved)


def _keep(snapshot: Snapshot, after: dict[JobId, Allocation | None], holder: JobId) -> None:
    """Leave a job as it is if its devices are its own again."""
    before, new = snapshot.jobs[holder].allocation, after[holder]
    assert before is not None, "it holds a device"
    taken = {each for job, own in after.items() if job != holder and own for each in own.devices}
    if not taken.isdisjoint(before.devices):
        return
    if new is None or set(new.devices) == set(before.devices):
        after[holder] = before
