"""The policies that only order jobs: first come, shortest, least served."""

from math import inf

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job
from treadle.core.ports import PerformanceModel
from treadle.core.ranking import Rank
from treadle.policies.base.ordered import Ordered
from treadle.policies.base.placement import Placement

# Of seconds: jobs that differ by an error of rounding are equal, and equals go by arrival.
_DIGITS = 7


def fifo(placement: Placement, belief: PerformanceModel) -> Ordered:  # noqa: ARG001
    """First come, first served; a job that does not fit blocks all behind it."""
    return Ordered(arrival, placement, strict=True)


def backfill(placement: Placement, belief: PerformanceModel) -> Ordered:  # noqa: ARG001
    """First come, first served, but jobs that fit pass those that do not."""
    return Ordered(arrival, placement)


def sjf(placement: Placement, belief: PerformanceModel, *, strict: bool = True) -> Ordered:
    """Shortest job first, never preempting; strict: a job that does not fit blocks the rest."""

    def order(job: Job, now: float) -> Rank:
        return Rank(job.order_at(now) / belief.alone(job.spec, job.spec.asked))

    return Ordered(order, placement, strict=strict)


def srtf(placement: Placement, belief: PerformanceModel, *, repack: bool = False) -> Ordered:
    """Shortest remaining time first, preempting; repack: place all jobs again each time."""
    return _shortest_remaining(placement, belief, repack=repack, by_service=False)


def srsf(placement: Placement, belief: PerformanceModel, *, repack: bool = False) -> Ordered:
    """Shortest remaining service (time times devices) first, preempting; repack as for srtf."""
    return _shortest_remaining(placement, belief, repack=repack, by_service=True)


def _shortest_remaining(
    placement: Placement, belief: PerformanceModel, *, repack: bool, by_service: bool
) -> Ordered:
    def order(job: Job, now: float) -> Rank:
        asked = job.spec.asked
        speed = belief.alone(job.spec, asked) / (asked if by_service else 1)
        remaining_s = round(job.order_at(now) / speed, _DIGITS)
        return Rank(remaining_s, -job.iterations_per_s / speed)

    return Ordered(order, placement, preemptive=True, repack=repack)


def las(
    placement: Placement,
    belief: PerformanceModel,  # noqa: ARG001
    *,
    share: float = 0.5,
    margin_s: float = 300.0,
    quantum_s: float = inf,
) -> Ordered:
    """Least attained service first: the job that has run least goes next, preempting.

    A job that runs is preempted only by one that has run less than a share of its time, less
    margin_s: otherwise jobs of about equal service take each other's devices at every event and
    gain nothing by it (share=1&margin_s=0 is that). While a job waits, the policy looks again
    every quantum_s, besides at every event.
    """
    if not 0 < share <= 1:
        raise InvalidInputError(f"las share must be above 0 and up to 1, not {share:g}")
    if not margin_s >= 0:
        raise InvalidInputError(f"las margin_s must be 0 or more, not {margin_s:g}")
    if not quantum_s > 0:
        raise InvalidInputError(f"las quantum_s must be above 0, not {quantum_s:g}")

    def order(job: Job, now: float) -> Rank:
        if job.allocation is None:
            return Rank(job.held_s)
        return Rank(share * job.held_at(now) - margin_s, share)

    return Ordered(order, placement, preemptive=True, quantum_s=quantum_s)


def arrival(job: Job, now: float) -> Rank:  # noqa: ARG001
    return Rank(job.sequence)
