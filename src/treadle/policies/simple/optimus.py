"""Optimus (Peng et al., EuroSys'18): each step to the job whose completion it brings forward most.

Jobs get their smallest size, those that run first and then in order of arrival; those that do not
fit are passed. The rest goes out step by step: the next to the job that gains most remaining time
for each device it takes. What is left of a job is what its losses say by one form of curve, without
asking whether the job can be predicted.
"""

from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel
from treadle.core.ranking import Rank
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.models.forecasts import forecaster
from treadle.policies.base.ordered import Ordered
from treadle.policies.base.placement import Placement
from treadle.policies.base.shares import Bid, Sharing, hand_out


class Optimus(Sharing):
    """Grow whichever job's completion comes forward most for each device."""

    def __init__(self, placement: Placement, belief: PerformanceModel) -> None:
        super().__init__(placement)
        self._belief = belief
        self._lengths = forecaster(belief)
        self._in_order = Ordered(self.rank, placement)

    def rank(self, job: Job, now: float) -> Rank:  # noqa: ARG002
        return Rank(job.sequence)

    def decide(self, snapshot: Snapshot) -> Schedule:
        if self.all_rigid(snapshot):
            return self._in_order.decide(snapshot)
        if self.nothing_to_do(snapshot):
            return KEEP
        active = [*snapshot.holding(), *snapshot.waiting()]
        active.sort(key=lambda job: (not job.size, job.sequence))
        sizes, free = self.smallest_each(active, snapshot.supply)
        jobs, alone = snapshot.jobs, self._belief.alone

        def bid(identity: JobId, size: int, larger: int) -> Bid | None:
            """The gain for each device, the best first; None if there is none."""
            job = jobs[identity]
            left = self._lengths.trusting(job, snapshot.now)
            saved_s = left / alone(job.spec, size) - left / alone(job.spec, larger)
            return (-saved_s / (larger - size), job.sequence) if saved_s > 0 else None

        hand_out(sizes, free, lambda identity: jobs[identity].spec.sizes, bid)
        return self.schedule(snapshot, sizes)
