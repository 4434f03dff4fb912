"""When devices come free, and how long jobs take, as far as it is expected."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from treadle.core.cluster import Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Snapshot
from treadle.policies.wrappers.views import Changes, free_after


class Release(NamedTuple):
    """Once a job has ended: the moment, in seconds from now, and the devices then free."""

    in_s: float
    free: FreeDevices


def remaining_s(job: Job, belief: PerformanceModel, size: int, now: float) -> float:
    """How long a job still takes: at its present speed, else at that of so many devices."""
    speed = job.iterations_per_s or belief.alone(job.spec, size)
    return job.remaining_at(now) / speed


def alone_s(job: Job, belief: PerformanceModel, now: float) -> float:
    """How long a job takes that would start now with what it asks for."""
    return job.remaining_at(now) / belief.alone(job.spec, job.spec.asked)


def releases(
    snapshot: Snapshot,
    belief: PerformanceModel,
    changes: Changes,
    stay_s: Mapping[JobId, float] = MappingProxyType({}),
    most_s: Mapping[JobId, float] = MappingProxyType({}),
) -> Iterator[Release]:
    """How devices come free if these changes are made and no job arrives; the first is now.

    most_s, stay_s: jobs that stay so long at most, or at least, whatever is believed of them; at
    least goes first. The same `free` is filled up from step to step: copy it to keep it.
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
        in_s = remaining_s(job, belief, allocation.size, now)
        in_s = max(min(in_s, most_s.get(identity, inf)), stay_s.get(identity, 0.0))
        ends.append((in_s, job.sequence, allocation.devices))
    holders = Counter(chain.from_iterable(devices for _, _, devices in ends))
    for in_s, _, devices in sorted(ends):
        for device in devices:
            holders[device] -= 1
        given = [device for device in devices if not holders[device] and device in known]
        if given:
            free.give(given)
        yield Release(in_s, free)
