"""Max-min fairness: equal shares, one step at a time, to whoever has least."""

from heapq import heapify, heappop, heappush
from math import inf

from weft.core.errors import InvalidInputError
from weft.core.job import Job, JobId
from weft.core.ports import PerformanceModel
from weft.core.snapshot import KEEP, Schedule, Snapshot
from weft.policies.placement import Placement
from weft.policies.shares import Sharing


class MaxMin(Sharing):
    """Everybody's smallest size first, by turns used; then the next step to whoever holds least.

    When not all jobs fit, they take turns: a job's turn lasts until it has held its asked size
    for a quantum, and jobs with fewer turns behind them go first.
    """

    def __init__(self, placement: Placement, *, quantum_s: float) -> None:
        super().__init__(placement)
        self._quantum_s = quantum_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        if self.nothing_to_do(snapshot):
            return KEEP
        active = [*snapshot.waiting(), *snapshot.holding()]
        active.sort(key=lambda job: (self._turns(job, snapshot.now), not job.size, job.sequence))
        sizes, free = self.smallest_each(active, snapshot.supply)
        _grow(snapshot, sizes, free)
        until = inf
        if len(sizes) < len(active):
            until = min(self._turn_ends_at(snapshot, identity) for identity in sizes)
        return self.schedule(snapshot, sizes, valid_until=until)

    def _turns(self, job: Job, now: float) -> int:
        # A hair more, so that a turn which ends now has ended.
        return int(job.service_at(now) / (self._quantum_s * job.spec.asked) + 1e-9)

    def _turn_ends_at(self, snapshot: Snapshot, identity: JobId) -> float:
        job, now = snapshot.jobs[identity], snapshot.now
        turn_s = self._quantum_s * job.spec.asked
        left_s = (self._turns(job, now) + 1) * turn_s - job.service_at(now)
        return now + max(left_s / max(job.size, job.spec.sizes[0]), 1.0)


def _grow(snapshot: Snapshot, sizes: dict[JobId, int], free: int) -> None:
    """Hand the rest out: the next step to the job with the fewest devices, while it fits."""
    turn = [(size, order, identity) for order, (identity, size) in enumerate(sizes.items())]
    heapify(turn)
    while turn and free:
        size, order, identity = heappop(turn)
        larger = [s for s in snapshot.jobs[identity].spec.sizes if s > size]
        if larger and larger[0] - size <= free:
            free -= larger[0] - size
            sizes[identity] = larger[0]
            heappush(turn, (larger[0], order, identity))


def max_min(
    placement: Placement,
    belief: PerformanceModel,  # noqa: ARG001
    *,
    quantum_s: float = 7200.0,
) -> MaxMin:
    """Equal shares for all, in turns when not all fit."""
    if quantum_s <= 0:
        raise InvalidInputError(f"max-min quantum_s must be above 0, not {quantum_s:g}")
    return MaxMin(placement, quantum_s=quantum_s)
