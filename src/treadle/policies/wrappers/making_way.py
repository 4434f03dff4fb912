"""Which jobs make way for a gang when the moment has come that it was promised (reserve.py).

Those that can resume do. One that is about to end does not: it would have to restart for a moment,
and the gang waits for little longer.
"""

from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel
from treadle.policies.wrappers.expected import remaining_s
from treadle.policies.wrappers.pays import ENDING, UNKNOWN_S
from treadle.policies.wrappers.steady import OVER_S


def leaves_at(job: Job, belief: PerformanceModel, by_at: float, now: float) -> float | None:
    """When it makes way for a gang that was promised its devices by a moment; None: never."""
    if not job.spec.resumable or job.phase is not Phase.RUNNING:
        return None
    if job.over_at is not None:
        return max(by_at, job.over_at + OVER_S)
    most_s = ENDING * (job.spec.profile.restart_s or UNKNOWN_S)
    ends = remaining_s(job, belief, job.size, now) <= most_s
    return by_at + most_s if ends else by_at
