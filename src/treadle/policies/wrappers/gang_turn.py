"""Gangs come back in turn: one that was preempted and waited long runs for a while undisturbed.

A policy that serves the shortest or the least served first stops a long gang for small jobs, and
they then take every device that comes free. So a gang that has run gets a reservation (reserve.py)
once it has waited, since it was stopped, for `again` times as long as it has run in all, and at
least LEAST_S. It is then not stopped before it has run for a quarter of that wait, unless a job of
higher priority waits. Reservations are given to such gangs for up to a quarter of the devices; the
first of them always has one.

All is told from the jobs' rows, so a restart of the scheduler ends no turn. Changes of size or
place remain the policy's.
"""

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import NamedTuple

from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import are, named_jobs, span
from treadle.policies.wrappers.views import plain

LEAST_S = 300.0
_COUNTED_MAX = 64  # gangs, those that came first; the next moves up when one of them starts
TURN = 0.25  # of its wait
SHARE = 0.25  # of the devices
_MOMENT_S = 1e-3
_NAMED_MAX = 3


def is_gang(job: Job) -> bool:
    """Whether it needs several devices at once."""
    return job.spec.sizes[0] > 1 and plain(job.spec)


def outranked(snapshot: Snapshot, job: Job) -> bool:
    """Whether a job of higher priority waits."""
    return max(snapshot.ranking.priorities, default=job.spec.priority) > job.spec.priority


def waits_in_turn(job: Job) -> bool:
    """Whether devices may be kept for it.

    One that failed is left to the policy and other wrappers, which know where it may go.
    """
    return is_gang(job) and not job.avoid


def waiting_gangs(jobs: Iterable[Job], quotas: Mapping[str, float] | None = None) -> list[Job]:
    """Those that wait in turn; gangs that ran take no place of those that never did.

    quotas: devices that are promised to guaranteed jobs of tenants. Others are then served by the
    policy on what promises leave.
    """
    gangs = [job for job in jobs if waits_in_turn(job)]
    if quotas:
        gangs = [job for job in gangs if job.spec.guaranteed and quotas.get(job.spec.tenant)]
    parts = ([job for job in gangs if not job.starts], [job for job in gangs if job.starts])
    return [
        job for part in parts for job in nsmallest(_COUNTED_MAX, part, key=lambda job: job.sequence)
    ]


class Turns(NamedTuple):
    """When gangs that were preempted have their turn."""

    again: float  # times what it has run, a gang waits for a reservation

    def wait_s(self, ran_s: float) -> float:
        """How long a gang that has run so long waits for a reservation."""
        return max(LEAST_S, self.again * ran_s)

    def left_s(self, job: Job, now: float) -> float:
        """For how long a gang that runs is not stopped yet; 0 if it is the policy's to stop."""
        if job.allocation is None or job.starts < 2 or not is_gang(job):
            return 0.0
        runs_s = now - job.begun_at
        before_s = job.held_at(now) - runs_s
        if job.phase is Phase.STOPPING or job.last_wait_s < self.wait_s(before_s) - _MOMENT_S:
            return 0.0
        left_s = TURN * job.last_wait_s - runs_s
        return left_s if left_s > _MOMENT_S else 0.0

    def has(self, snapshot: Snapshot, job: Job) -> bool:
        """Whether it is a gang's turn, so that it is left where it is for now."""
        return self.left_s(job, snapshot.now) > 0 and not outranked(snapshot, job)

    def of(self, snapshot: Snapshot) -> dict[JobId, float]:
        """The gangs whose turn it is, and for how long still."""
        now = snapshot.now
        again = [job for job in snapshot.holding() if job.starts > 1]
        return {job.id: self.left_s(job, now) for job in again if self.has(snapshot, job)}

    def decided(self, inner: Policy, seen: Snapshot) -> Schedule:
        """What a policy decides if gangs whose turn it is are not stopped."""
        view, kept = seen, list[Job]()
        while True:
            schedule = inner.decide(view)
            stopped = [seen.jobs[name] for name, new in schedule.changes.items() if new is None]
            early = [job for job in stopped if self.has(seen, job)]
            if not early:
                break
            kept += early
            view = seen.keeping(kept)
        ends = (seen.now + self.left_s(job, seen.now) for job in kept)
        return Schedule(schedule.changes, min((schedule.valid_until, *ends)), schedule.memory)

    def room(self, snapshot: Snapshot, reserved: Iterable[Job], job: Job) -> bool:
        """Whether one more gang may come back beside these and those whose turn it is."""
        sizes = [other.spec.sizes[0] for other in reserved if other.starts]
        sizes += [snapshot.jobs[name].size for name in self.of(snapshot)]
        most = SHARE * snapshot.cluster.device_count
        return not sizes or sum(sizes) + job.spec.sizes[0] <= most

    def why(self, inner: Policy, seen: Snapshot, job: JobId) -> Reason | None:
        """The gangs that would make way for a waiting job if it were not their turn."""
        turns = self.of(seen)
        if not turns:
            return None
        wanted = inner.decide(seen).changes
        stopped = [name for name in turns if name in wanted and wanted[name] is None]
        if wanted.get(job) is None or not stopped:
            return None
        if self.decided(inner, seen).changes.get(job) is not None:
            return None
        over_s = max(turns[name] for name in stopped)
        return Reason(
            "settling",
            f"{named_jobs(stopped, _NAMED_MAX)} would make way for it, but {are(len(stopped))} "
            f"left alone for a while after a long wait; that is over in {span(over_s)}",
        )
