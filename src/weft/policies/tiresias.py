"""Tiresias (Gu et al., NSDI'19): least attained service in a few queues instead of a continuum.

Attained service is two-dimensional: devices times time. A job starts in the first queue and falls
into the next when its service passes a limit; queues are served in order, first come first served
within one. By default that is by when a job began to wait or run there, and nobody is preempted for
a job of the same queue; with `by_arrival` it is by submission, preempting. A job that has waited
`promote` times as long as it has ever run goes back to the first queue for one more spell.
"""

from bisect import bisect_right
from math import inf

from weft.core.errors import InvalidInputError
from weft.core.job import Job
from weft.core.ports import PerformanceModel
from weft.core.ranking import Rank
from weft.policies.ordered import Ordered
from weft.policies.placement import Placement

# Service that is a rounding error short of a limit has reached it; without this a job could be
# asked about for ever at the moment that it crosses.
_ROUNDING = 1e-6
_ARRIVALS_MAX = 1e9  # more jobs than ever arrive, so that queues do not overlap


def tiresias(
    placement: Placement,
    belief: PerformanceModel,  # noqa: ARG001
    *,
    limits: tuple[float, ...] = (3250.0, 7200.0),
    promote: float = 0.0,
    by_arrival: bool = False,
) -> Ordered:
    """Discretised two-dimensional least attained service, with demotion and promotion."""
    if not limits or list(limits) != sorted(set(limits)) or limits[0] <= 0:
        raise InvalidInputError(f"tiresias limits must ascend from above 0, not {limits}")
    if promote < 0:
        raise InvalidInputError(f"tiresias promote must be 0 (never) or above, not {promote:g}")

    def place(queue: int, job: Job) -> float:
        return queue * _ARRIVALS_MAX + job.sequence if by_arrival else queue

    def order(job: Job, now: float) -> Rank:
        service_s = job.service_at(now)
        if promote and job.allocation is not None and _was_promoted(job, now, promote):
            service_s = job.size * (now - job.begun_at)
        queue = bisect_right(limits, service_s + _ROUNDING)
        if job.allocation is not None:
            left_s = limits[queue] - service_s if queue < len(limits) else inf
            return Rank(place(queue, job), 0.0, now + left_s / job.size)
        if promote and queue:
            promoted_at = job.since_at + promote * job.held_s
            if now + _ROUNDING >= promoted_at:
                return Rank(place(0, job))
            return Rank(place(queue, job), 0.0, promoted_at)
        return Rank(place(queue, job))

    return Ordered(order, placement, preemptive=True)


def _was_promoted(job: Job, now: float, promote: float) -> bool:
    """Whether the present hold began because of a long wait."""
    held_before_s = job.held_at(now) - (now - job.begun_at)
    return held_before_s > 0 and job.last_wait_s + _ROUNDING >= promote * held_before_s
