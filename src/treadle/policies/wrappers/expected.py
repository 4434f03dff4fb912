"""When devices come free, and how long jobs take, as far as it is expected."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from treadle.core.cluster import Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Snapshot
from treadle.policies.wrappers.views import Changes, free_after


class Release(NamedTuple):
    """Once a job has ended: the moment, in seconds from now, and the devices then free."""

    in_s: float
    free: FreeDevices


def alone_s(job: Job, belief: PerformanceModel, now: float) -> float:
    """How long a job takes that would start now with what it asks for."""
    return job.remaining_at(now) / belief.alone(job.spec, job.spec.asked)


def releases(snapshot: Snapshot, belief: PerformanceModel, changes: Changes) -> Iterator[Release]:
    """How devices come free if these changes are made and no job arrives; the first is now.

    The same `free` is filled up from step to step: copy it to keep it.
    """
    free, now = free_after(snapshot, changes), snapshot.now
    yield Release(0.0, free)
    known = set(snapshot.tenants)
    for new in changes.values():
        known.update(() if new is None else new.devices)
    ends: list[tuple[float, int, tuple[Device, ...]]] = []
    for identity, job in snapshot.jobs.items():
        allocation = changes.get(identity, job.allocation)
        if allocation is None:
            continue
        speed = job.iterations_per_s or belief.alone(job.spec, allocation.size)
        ends.append((job.remaining_at(now) / speed, job.sequence, allocation.devices))
    holders = Counter(chain.from_iterable(devices for _, _, devices in ends))
    for in_s, _, devices in sorted(ends):
        for device in devices:
            holders[device] -= 1
        given = [device for device in devices if not holders[device] and device in known]
        if given:
            free.give(given)
        yield Release(in_s, free)
