"""Try a failed job again later, and on other nodes: that part of the live decision alone.

Exact simulations with classified retries have it around their policy.
"""

from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.live.eligibility import Eligibility
from treadle.policies.live.plan import Plan
from treadle.policies.wrappers.wrapper import Wrapper


class Retrying(Wrapper):
    """A policy that keeps what a retry rule asked for."""

    def __init__(self, inner: Policy, placement: Placement) -> None:
        super().__init__(inner)
        self.in_order = False  # While a job is kept back, others start.
        self._placement = placement

    def decide(self, snapshot: Snapshot) -> Schedule:
        if not any(job.failures for job in snapshot.waiting()):
            return self.inner.decide(snapshot)
        eligible = Eligibility.of(snapshot, self._placement, lambda _: (0, 0, 0), in_order=False)
        schedule = self.inner.decide(snapshot.hiding(eligible.hidden))
        plan = Plan(snapshot, eligible.room)
        plan.settle(schedule.changes)
        until = min(schedule.valid_until, eligible.until)
        return Schedule(plan.made(), until, schedule.memory)
