"""Max-min fairness: equal shares, one step at a time, to the job that has least."""

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job
from treadle.core.ports import PerformanceModel
from treadle.core.ranking import Rank
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.policies.base.ordered import Ordered
from treadle.policies.base.placement import Placement
from treadle.policies.base.shares import Sharing, hand_out


class MaxMin(Sharing):
    """Equal shares for all, in turns when not all fit.

    A job's turn lasts until it has held its asked size for a quantum, and jobs with fewer turns
    behind them go first. Without turns, as AFS' authors model it, a job that has begun is never
    stopped, and others wait in order of arrival.
    """

    def __init__(
        self,
        placement: Placement,
        belief: PerformanceModel,  # noqa: ARG002
        *,
        quantum_s: float = 7200.0,
        turns: bool = True,
    ) -> None:
        if quantum_s <= 0:
            raise InvalidInputError(f"max-min quantum_s must be above 0, not {quantum_s:g}")
        super().__init__(placement)
        self._quantum_s = quantum_s
        self._takes_turns = turns
        self._by_rank = Ordered(self.rank, placement, preemptive=turns)

    def rank(self, job: Job, now: float) -> Rank:
        """By turns used; a running job keeps its place to the end of its turn."""
        turns = self._turns(job, now)
        if job.allocation is None or not self._takes_turns:
            return Rank(turns)
        left_s = (turns + 1) * self._turn_s(job) - job.service_at(now)
        return Rank(turns, 0.0, now + left_s / job.size)

    def decide(self, snapshot: Snapshot) -> Schedule:
        if self.all_rigid(snapshot):
            return self._by_rank.decide(snapshot)
        if self.nothing_to_do(snapshot):
            return KEEP
        active = [*snapshot.waiting(), *snapshot.holding()]
        active.sort(key=lambda job: (self._turns(job, snapshot.now), not job.size, job.sequence))
        sizes, free = self.smallest_each(active, snapshot.supply)
        place = {identity: place for place, identity in enumerate(sizes)}
        offers = {job.id: job.spec.sizes for job in active}
        hand_out(sizes, free, offers.__getitem__, lambda job, size, _: (size, place[job]))
        return self.schedule(snapshot, sizes)

    def _turns(self, job: Job, now: float) -> int:
        if not self._takes_turns:
            return 0
        # A hair more, so that a turn which ends now has ended.
        return int(job.service_at(now) / self._turn_s(job) + 1e-9)

    def _turn_s(self, job: Job) -> float:
        """Device-seconds of one turn."""
        return self._quantum_s * job.spec.asked
