"""Themis (Mahajan et al., NSDI'20): worst finish-time fairness first, on leases.

A job's fairness is the time it will have taken over the time it would have taken on its own equal
share of the cluster: above 1 means worse off than alone. Devices are leased; a job keeps its lease
to the end of the term, then all devices without a lease go to the jobs that are worst off. The
paper's auction is reduced here to its outcome for truthful bidders of rigid jobs. With leases of
0 s every device is up for grabs whenever something happens, as Muri's authors model it.

An elastic job bids anew when its lease ends, for up to the size it asked for. What is left once
every job is served is auctioned at once, also to jobs that run: one step after another, to the job
that is worst off with what it has. While a job waits for more than is free, the rest stays free.
"""

from collections.abc import Iterator
from heapq import heapify, heappop
from math import floor, inf

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel, Revisable
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.core.waiting_by_kind import Waiting
from treadle.policies.base.placement import Placement
from treadle.policies.base.shares import Bid, Sharing, hand_out

_INSTANT_S = 1e-6  # moments that are nearer than this are the same
# Unfairness, negated; whether it waits; arrival; job; its smallest size.
_Contender = tuple[float, bool, int, JobId, int]


class Themis(Sharing):
    """Finish-time fairness: the job that is worst off goes first, on leases."""

    def __init__(
        self, placement: Placement, belief: PerformanceModel, *, lease_s: float = 1200.0
    ) -> None:
        if lease_s < 0:
            raise InvalidInputError(f"themis lease_s must be 0 (none) or above, not {lease_s:g}")
        super().__init__(placement)
        self._belief = belief
        self._may_change = isinstance(belief, Revisable)
        self._lease_s = lease_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        if self.nothing_to_do(snapshot):
            return KEEP
        jobs, now, devices = snapshot.jobs, snapshot.now, snapshot.supply
        holders = list(snapshot.holding())
        share = devices / (len(snapshot.ranking.queue) + len(holders))
        sizes: dict[JobId, int] = {}
        ranked: list[_Contender] = []
        next_end_s = self._lease_s or inf
        for job in holders:
            left_s = self._lease_left_s(job, snapshot)
            if left_s:
                sizes[job.id] = job.size
                next_end_s = min(next_end_s, left_s)
            else:
                owed = self._unfairness(job, now, share)
                ranked.append((-owed, False, job.sequence, job.id, job.spec.sizes[0]))
        next_end_at = now + next_end_s
        free = devices - sum(sizes.values())
        if not free:
            return Schedule({}, next_end_at, next_end_at)
        ranked += self._waiting(snapshot, share)
        free, all_served = _serve(snapshot, ranked, sizes, free)
        if all_served:
            hand_out(
                sizes,
                free,
                lambda identity: jobs[identity].spec.sizes,
                lambda identity, size, more: self._bid(jobs[identity], size, more, now, share),
            )
        return Schedule(self.schedule(snapshot, sizes).changes, next_end_at, next_end_at)

    def _waiting(self, snapshot: Snapshot, share: float) -> Iterator[_Contender]:
        """Waiting jobs. Most of what their unfairness is made of does not move while they wait."""
        jobs, now, alone = snapshot.jobs, snapshot.now, self._belief.alone

        def classified(waiting: Waiting) -> tuple[tuple[int, int], tuple[float, float, float, int]]:
            job = jobs[waiting[2]]
            spec, speed = job.spec, alone(job.spec, job.spec.asked)
            remaining_s, whole_s = job.remaining_at(now) / speed, spec.iterations / speed
            place = (job.submitted_at, remaining_s, whole_s, job.sequence)
            return (spec.asked, spec.sizes[0]), place

        # A belief that may change is asked about every job at every decision.
        basis = object() if self._may_change else self
        for (asked, smallest), line in snapshot.ranking.by_kind(classified, basis).items():
            part = min(1.0, share / asked)
            for (submitted_at, remaining_s, whole_s, sequence), job in line:
                unfairness = (now - submitted_at + remaining_s) / (whole_s / part)
                yield -unfairness, True, sequence, job, smallest

    def _lease_left_s(self, job: Job, snapshot: Snapshot) -> float:
        """Seconds to the end of a holder's present term; 0 if a term ended.

        A decision may come late, in rounds or live: the memory says since when it was due.
        """
        if not self._lease_s:
            return 0.0
        now, memory = snapshot.now, snapshot.memory
        due_at = min(memory, now) if isinstance(memory, float) else now
        terms = floor((now - job.begun_at + _INSTANT_S) / self._lease_s)
        ended_at = job.begun_at + terms * self._lease_s
        if terms and ended_at >= due_at - _INSTANT_S:
            return 0.0
        return ended_at + self._lease_s - now

    def _bid(self, job: Job, size: int, larger: int, now: float, share: float) -> Bid | None:
        """A job's wish for its next larger size, the worst off first; None if it gains nothing."""
        speed = self._belief.alone(job.spec, size)
        if self._belief.alone(job.spec, larger) <= speed:
            return None
        return -self._unfairness(job, now, share, speed), job.sequence

    def _unfairness(self, job: Job, now: float, share: float, at: float | None = None) -> float:
        """Time it will have taken over time on an equal share of the cluster's devices.

        at: its speed from now on; that of the size it asked for, if not given.
        """
        spec = job.spec
        speed = self._belief.alone(spec, spec.asked)
        alone_s = spec.iterations / speed / min(1.0, share / spec.asked)
        return (now - job.submitted_at + job.remaining_at(now) / (at or speed)) / alone_s


def _serve(
    snapshot: Snapshot, ranked: list[_Contender], sizes: dict[JobId, int], free: int
) -> tuple[int, bool]:
    """The most that fits of what each asked for, the worst off first; what is left, and whether
    every one was served.
    """
    served, number = 0, len(ranked)
    least = min((entry[4] for entry in ranked), default=0)
    heapify(ranked)
    while ranked and free >= least:  # Few of a long queue are served, so it is not sorted.
        _, _, _, identity, _ = heappop(ranked)
        spec = snapshot.jobs[identity].spec
        fits = [size for size in spec.sizes if size <= min(free, spec.asked)]
        if fits:
            sizes[identity] = fits[-1]
            free -= fits[-1]
            served += 1
    return free, served == number
