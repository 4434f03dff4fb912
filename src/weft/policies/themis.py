"""Themis (Mahajan et al., NSDI'20): worst finish-time fairness first, on leases.

A job's fairness is the time it will have taken over the time it would have taken on its own equal
share of the cluster: above 1 means worse off than alone. Devices are leased; a job keeps its lease
to the end of the term, then all devices without a lease go to the jobs that are worst off. The
paper's auction is reduced here to its outcome for truthful bidders of rigid jobs.
"""

from math import inf

from weft.core.errors import InvalidInputError
from weft.core.job import Job, JobId
from weft.core.ports import PerformanceModel
from weft.core.snapshot import KEEP, Schedule, Snapshot
from weft.policies.placement import Placement
from weft.policies.shares import Sharing


class Themis(Sharing):
    """Leases, and the unfairest treated job first."""

    def __init__(self, placement: Placement, belief: PerformanceModel, *, lease_s: float) -> None:
        super().__init__(placement)
        self._belief = belief
        self._lease_s = lease_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        waiting = list(snapshot.waiting())
        if not waiting:
            return KEEP
        now = snapshot.now
        active = [*waiting, *snapshot.holding()]
        contenders = len(active)
        leased = {job.id for job in active if job.size and self._lease_left_s(job, now) > 0}
        active.sort(
            key=lambda job: (
                job.id not in leased,
                -self._unfairness(job, snapshot, contenders),
                not job.size,
                job.sequence,
            )
        )
        free = snapshot.cluster.device_count
        sizes: dict[JobId, int] = {}
        for job in active:
            offers = [job.size] if job.size else [s for s in job.spec.sizes if s <= job.spec.asked]
            size = max((offer for offer in offers if offer <= free), default=0)
            if size:
                sizes[job.id] = size
                free -= size
        allocations = self.assign(snapshot, sizes)
        until = min(
            (now + (self._lease_left_s(snapshot.jobs[i], now) or self._lease_s) for i in sizes),
            default=inf,
        )
        return Schedule.whole(snapshot, allocations, valid_until=until)

    def _lease_left_s(self, job: Job, now: float) -> float:
        """Seconds to the end of the present term; 0 at a term's end, and for a waiting job."""
        if job.allocation is None:
            return 0.0
        into_s = (now - job.begun_at) % self._lease_s
        at_an_end = min(into_s, self._lease_s - into_s) < 1e-6
        return 0.0 if at_an_end and now > job.begun_at else self._lease_s - into_s

    def _unfairness(self, job: Job, snapshot: Snapshot, contenders: int) -> float:
        spec, now = job.spec, snapshot.now
        speed = self._belief.alone(spec, spec.asked)
        share = snapshot.cluster.device_count / contenders
        alone_s = spec.iterations / speed / min(1.0, share / spec.asked)
        return (now - job.submitted_at + job.remaining_at(now) / speed) / alone_s


def themis(placement: Placement, belief: PerformanceModel, *, lease_s: float = 1200.0) -> Themis:
    """Finish-time fairness: the job that is worst off goes first, on leases."""
    if lease_s <= 0:
        raise InvalidInputError(f"themis lease_s must be above 0, not {lease_s:g}")
    return Themis(placement, belief, lease_s=lease_s)
