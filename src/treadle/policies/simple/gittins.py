"""The blind order: jobs by their Gittins index over what is known of their lengths."""

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job
from treadle.core.ports import PerformanceModel
from treadle.core.ranking import Rank
from treadle.models.lengths.indexing import indexer
from treadle.policies.base.ordered import Ordered
from treadle.policies.base.placement import Placement

_AGAIN_MIN_S = 60.0  # an index is looked at again after this, or when the job is older by a share
_AGAIN_SHARE = 0.3


def gittins(placement: Placement, belief: PerformanceModel, *, keep: float = 2.0) -> Ordered:
    """Highest Gittins index first: who may end soonest for the devices it holds, preempting.

    Where only the distribution of lengths is known, this order minimises the mean completion time
    on one device. A job that runs is preempted only by one whose index is more than `keep` times as
    high: otherwise jobs that are alike take each other's devices and gain nothing by it.
    """
    if not keep >= 1:
        raise InvalidInputError(f"gittins keep must be 1 or more, not {keep:g}")
    known = indexer(belief)

    def order(job: Job, now: float) -> Rank:
        index = known.index(job, now) / job.spec.asked
        if job.allocation is None:
            return Rank(-index)
        again_s = max(_AGAIN_MIN_S, _AGAIN_SHARE * job.held_at(now))
        return Rank(-keep * index, until=now + again_s)

    return Ordered(order, placement, preemptive=True)
