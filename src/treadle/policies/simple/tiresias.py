"""Tiresias (Gu et al., NSDI'19): least attained service in a few queues instead of a continuum.

Attained service is two-dimensional: devices times time. A job starts in the first queue and falls
into the next when its service passes a limit; queues are served in order, first come first served
within one. By default that is by when a job began to wait or run there, and no job is preempted for
a job of the same queue; with `by_arrival` it is by submission, preempting. A job that has waited
`promote` times as long as it has ever run goes back to the first queue for one more spell.

With `as_lists` a queue is a list in which those that run stand before those that wait, as Muri's
authors model it (Zhao et al., SIGCOMM'22). A job that falls into a queue joins its end: at that
moment those that wait there may take its devices, later they may not. A preempted job waits at the
head. The policy asks to look at a job after the whole second of running in which it passes a limit.
"""

from bisect import bisect_right
from collections.abc import Sequence
from math import ceil, inf

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job
from treadle.core.ports import PerformanceModel
from treadle.core.ranking import Rank
from treadle.policies.base.ordered import Order, Ordered
from treadle.policies.base.placement import Placement

# Service that is a rounding error short of a limit has reached it; without this a job could be
# asked about for ever at the moment that it crosses.
_ROUNDING = 1e-6
_ARRIVALS_MAX = 1e9  # more jobs than ever arrive, so that queues do not overlap
_MOMENTS_MAX = 1e9  # seconds; no run lasts as long, so that parts of a list do not overlap
_FALLING_S = 1e-3  # how long a job that fell into a queue stands behind those that wait there


def tiresias(
    placement: Placement,
    belief: PerformanceModel,  # noqa: ARG001
    *,
    limits: tuple[float, ...] = (3250.0, 7200.0),
    promote: float = 0.0,
    by_arrival: bool = False,
    as_lists: bool = False,
) -> Ordered:
    """Discretised two-dimensional least attained service, with demotion and promotion."""
    if not limits or list(limits) != sorted(set(limits)) or limits[0] <= 0:
        raise InvalidInputError(f"tiresias limits must ascend from above 0, not {limits}")
    if promote < 0:
        raise InvalidInputError(f"tiresias promote must be 0 (never) or above, not {promote:g}")
    if as_lists and (by_arrival or promote):
        raise InvalidInputError("tiresias as_lists goes with neither by_arrival nor promote")
    order = _in_lists(limits) if as_lists else _in_spells(limits, promote, by_arrival=by_arrival)
    return Ordered(order, placement, preemptive=True)


def _in_spells(limits: Sequence[float], promote: float, *, by_arrival: bool) -> Order:
    """The order of queues in which one spell of running or waiting follows another."""

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

    return order


def _was_promoted(job: Job, now: float, promote: float) -> bool:
    """Whether the present hold began because of a long wait."""
    held_before_s = job.held_at(now) - (now - job.begun_at)
    return held_before_s > 0 and job.last_wait_s + _ROUNDING >= promote * held_before_s


def _in_lists(limits: Sequence[float]) -> Order:
    """The order of queues that are lists: who runs, who was preempted, who joined at the end."""

    def order(job: Job, now: float) -> Rank:
        size, service_s = job.spec.asked, job.service_at(now)
        queue = bisect_right(limits, service_s + _ROUNDING)
        ran_s = service_s / size
        # Rounded, so that those who fell together stand as they stood.
        fell_s = round(ran_s - ceil(limits[queue - 1] / size), 6) if queue else inf
        running = 3 * queue * _MOMENTS_MAX
        waiting = running + 2 * _MOMENTS_MAX  # below it the preempted, the latest first
        if job.allocation is None:
            at_the_end = not job.starts or fell_s < _FALLING_S
            return Rank(waiting + job.since_at if at_the_end else waiting - job.since_at)
        if fell_s < _FALLING_S:
            return Rank(waiting + now, 0.0, now - fell_s + _FALLING_S)
        falls_s = ceil(limits[queue] / size) - ran_s if queue < len(limits) else inf
        return Rank(running + max(job.begun_at, round(now - fell_s, 6)), 0.0, now + falls_s)

    return order
