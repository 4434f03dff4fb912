"""Themis (Mahajan et al., NSDI'20): worst finish-time fairness first, on leases.

A job's fairness is the time it will have taken over the time it would have taken on its own equal
share of the cluster: above 1 means worse off than alone. Devices are leased; a job keeps its lease
to the end of the term, then all devices without a lease go to the jobs that are worst off. The
paper's auction is reduced here to its outcome for truthful bidders of rigid jobs. With leases of
0 s every device is up for grabs whenever something happens, as Muri's authors model it.
"""

from math import inf

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.base.shares import Sharing


class Themis(Sharing):
    """Leases, and the unfairest treated job first."""

    def __init__(self, placement: Placement, belief: PerformanceModel, *, lease_s: float) -> None:
        super().__init__(placement)
        self._belief = belief
        self._lease_s = lease_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        contenders = list(snapshot.waiting())
        if not contenders:
            return KEEP
        now, devices = snapshot.now, snapshot.supply
        holders = list(snapshot.holding())
        share = devices / (len(contenders) + len(holders))
        sizes: dict[JobId, int] = {}
        next_end_s = self._lease_s or inf
        for job in holders:
            left_s = self._lease_left_s(job, now)
            if left_s:
                sizes[job.id] = job.size
                next_end_s = min(next_end_s, left_s)
            else:
                contenders.append(job)
        free = devices - sum(sizes.values())
        if not free:
            return Schedule({}, now + next_end_s)
        ranked = [(-self._unfairness(job, now, share), not job.size, job) for job in contenders]
        ranked.sort(key=lambda entry: (entry[0], entry[1], entry[2].sequence))
        for _, _, job in ranked:
            offers = (job.size,) if job.size else job.spec.sizes
            fits = [size for size in offers if size <= min(free, job.spec.asked)]
            if fits:
                sizes[job.id] = fits[-1]
                free -= fits[-1]
        return self.schedule(snapshot, sizes, valid_until=now + next_end_s)

    def _lease_left_s(self, job: Job, now: float) -> float:
        """Seconds to the end of a holder's present term; 0 at a term's end."""
        if not self._lease_s:
            return 0.0
        into_s = (now - job.begun_at) % self._lease_s
        at_an_end = min(into_s, self._lease_s - into_s) < 1e-6
        return 0.0 if at_an_end and now > job.begun_at else self._lease_s - into_s

    def _unfairness(self, job: Job, now: float, share: float) -> float:
        """Time it will have taken over time on an equal share of the cluster's devices."""
        spec = job.spec
        speed = self._belief.alone(spec, spec.asked)
        alone_s = spec.iterations / speed / min(1.0, share / spec.asked)
        return (now - job.submitted_at + job.remaining_at(now) / speed) / alone_s


def themis(placement: Placement, belief: PerformanceModel, *, lease_s: float = 1200.0) -> Themis:
    """Finish-time fairness: the job that is worst off goes first, on leases."""
    if lease_s < 0:
        raise InvalidInputError(f"themis lease_s must be 0 (none) or above, not {lease_s:g}")
    return Themis(placement, belief, lease_s=lease_s)
