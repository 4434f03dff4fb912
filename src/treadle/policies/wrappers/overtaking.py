"""Let a job overtake only if the one it passes starts no later for it.

Policies that pass over jobs that do not fit keep devices busy, and keep large jobs waiting: small
ones take what comes free. With this, a job may pass the first one that is stuck only if it is
predicted to end before that one is estimated to start, from the predicted ends of those that run.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.wrappers.views import Changes, free_after, starts
from treadle.policies.wrappers.wrapper import Refusing


class Overtaking(Refusing):
    """A job passes a stuck one only if it ends before that one's estimated start.

    limit: how long it may run, as a multiple of the time up to that start.
    """

    def __init__(
        self, inner: Policy, placement: Placement, belief: PerformanceModel, *, limit: float = 1.0
    ) -> None:
        if not limit >= 0:
            raise InvalidInputError(f"overtaking limit must be 0 or more, not {limit:g}")
        super().__init__(inner)
        self._placement = placement
        self._belief = belief
        self._limit = limit

    def refused(
        self, snapshot: Snapshot, seen: Snapshot, schedule: Schedule
    ) -> Mapping[JobId, float]:
        queue = [identity for _, _, identity in seen.ranking.queue]
        stuck = self._stuck(snapshot, schedule.changes, queue)
        others = set(queue[stuck + 1 :])
        if others.isdisjoint(starts(snapshot, schedule.changes)):
            return {}
        ahead = {i: a for i, a in schedule.changes.items() if i not in others}
        at = self.starts_at(snapshot, snapshot.jobs[queue[stuck]], ahead)
        room_s = self._limit * (at - snapshot.now) if at < inf else inf
        jobs = snapshot.jobs
        return {i: inf for i in others if alone_s(jobs[i], self._belief, snapshot.now) > room_s}

    def _stuck(self, snapshot: Snapshot, changes: Changes, queue: Sequence[JobId]) -> int:
        """Where the first job stands that finds no room beside those that start ahead of it.

        One that would find room waits because the inner policy wants it to.
        """
        started = starts(snapshot, changes)
        free = free_after(snapshot, {i: a for i, a in changes.items() if i not in started})
        for place, identity in enumerate(queue):
            if identity in started:
                taken = [d for d in started[identity].devices if free.holds((d,))]
                if taken:
                    free.take(taken)
            elif self._placement.place(free, snapshot.jobs[identity].spec.asked) is None:
                return place
        return len(queue)

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        reason = self.inner.reason(self.inside(snapshot), job)
        first = next(snapshot.waiting(), None)
        if reason.code != "rank" or first is None or first.id == job:
            return reason
        in_s = self.starts_at(snapshot, first, {}) - snapshot.now
        takes_s = alone_s(snapshot.jobs[job], self._belief, snapshot.now)
        if takes_s <= self._limit * in_s:
            return reason
        return Reason("overtaking", {"first_job": first.id, "takes_s": takes_s, "in_s": in_s})

    def starts_at(self, snapshot: Snapshot, job: Job, changes: Changes) -> float:
        """When a job could start if these changes were made and no job arrived."""
        size = job.spec.asked
        for in_s, free in self._releases(snapshot, changes):
            if free.total >= size and self._placement.place(free, size) is not None:
                return snapshot.now + in_s
        return inf

    def _releases(
        self, snapshot: Snapshot, changes: Changes
    ) -> Iterator[tuple[float, FreeDevices]]:
        """In how many seconds devices come free, and all that are then; the first is now.

        The same devices are filled up from step to step.
        """
        free, now = free_after(snapshot, changes), snapshot.now
        yield 0.0, free
        known = set(snapshot.tenants)
        for new in changes.values():
            known.update(() if new is None else new.devices)
        ends: list[tuple[float, int, tuple[Device, ...]]] = []
        for identity, job in snapshot.jobs.items():
            allocation = changes.get(identity, job.allocation)
            if allocation is not None:
                speed = job.iterations_per_s or self._belief.alone(job.spec, allocation.size)
                ends.append((job.remaining_at(now) / speed, job.sequence, allocation.devices))
        holders = Counter(device for _, _, devices in ends for device in devices)
        for in_s, _, devices in sorted(ends):
            holders.subtract(devices)
            given = [device for device in devices if not holders[device] and device in known]
            if given:
                free.give(given)
            yield in_s, free


def alone_s(job: Job, belief: PerformanceModel, now: float) -> float:
    """How long a job takes that would start now with what it asks for."""
    return job.remaining_at(now) / belief.alone(job.spec, job.spec.asked)
