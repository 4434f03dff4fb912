"""Wait for devices near each other, but no longer than is worth it.

A job that crosses more nodes than it needs runs slower for all its life, so it may be worth waiting
for better devices; how long depends on how long it will run. Every job waits up to a share of its
predicted run time for a place on as few nodes as its size needs. After that it takes any free
devices, even where the placement would never split it.
"""

from collections.abc import Mapping
from math import inf

from treadle.core.allocation import Allocation
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies.base.placement import Count, Placement, nodes_needed
from treadle.policies.wrappers.views import free_after, plain, starts
from treadle.policies.wrappers.wrapper import Refusing


class Locality(Refusing):
    """A job waits for as few nodes as it needs, up to a share of its predicted run time."""

    def __init__(
        self,
        inner: Policy,
        placement: Placement,  # noqa: ARG002
        belief: PerformanceModel,
        *,
        share: float = 0.1,
    ) -> None:
        if not 0 <= share < inf:
            raise InvalidInputError(f"locality share must be 0 or more, not {share:g}")
        super().__init__(inner)
        self._belief = belief
        self._share = share
        self._anywhere = Count()

    def decide(self, snapshot: Snapshot) -> Schedule:
        return self._relaxed(snapshot, super().decide(snapshot))

    def refused(
        self,
        snapshot: Snapshot,
        seen: Snapshot,  # noqa: ARG002
        schedule: Schedule,
    ) -> Mapping[JobId, float]:
        refused: dict[JobId, float] = {}
        for identity, allocation in starts(snapshot, schedule.changes).items():
            if len(allocation.nodes()) > nodes_needed(snapshot.free, allocation.size):
                until = self._patient_until(snapshot.jobs[identity])
                if until > snapshot.now:
                    refused[identity] = until
        return refused

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        row, size = snapshot.jobs[job], snapshot.jobs[job].spec.asked
        until = self._patient_until(row)
        if row.allocation is None and until > snapshot.now and size <= snapshot.free.total:
            found = self._anywhere.place(snapshot.free, size)
            nodes, needed = len({d.node for d in found or ()}), nodes_needed(snapshot.free, size)
            if nodes > needed:
                numbers = {"asked": size, "nodes": nodes, "fewest": needed}
                return Reason("locality", {**numbers, "in_s": until - snapshot.now})
        return self.inner.reason(self.inside(snapshot), job)

    def _relaxed(self, snapshot: Snapshot, schedule: Schedule) -> Schedule:
        """Start jobs that have waited long enough on any free devices."""
        changes, until = dict(schedule.changes), schedule.valid_until
        free = free_after(snapshot, changes)
        waiting = snapshot.ranking.waiting()
        waiting.give_up(free.total + 1)
        for (_, _, identity), size in waiting:
            if changes.get(identity) is not None:
                continue
            job = snapshot.jobs[identity]
            patient_until = self._patient_until(job)
            if patient_until > snapshot.now:
                until = min(until, patient_until)
            elif plain(job.spec) and (devices := self._anywhere.place(free, size)) is not None:
                free.take(devices)
                changes[identity] = Allocation(devices)
                waiting.give_up(free.total + 1)
                continue
            if self.in_order:
                break
        return Schedule(changes, until, schedule.memory)

    def _patient_until(self, job: Job) -> float:
        """When a job that waits stops waiting for a better place."""
        spec = job.spec
        predicted_s = job.remaining_at(job.observed_at) / self._belief.alone(spec, spec.asked)
        return job.since_at + self._share * predicted_s
