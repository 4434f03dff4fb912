"""Synergy (Mohan et al., OSDI'22), as Rubick's authors run it: devices as asked, cores as useful.

Jobs run first come, first served at the size and under the plan that they asked for. What is tuned
is the host: cores that a node has beyond what comes with its devices go to the jobs that make the
most of them (rubick/hosts.py). Jobs whose plan is not known keep their node's even share.
"""

from dataclasses import replace

from treadle.core.allocation import Allocation
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.plans.sensitivity import Curves
from treadle.policies.base.ordered import Ordered
from treadle.policies.base.placement import Placement
from treadle.policies.rubick.hosts import Hosts
from treadle.policies.rubick.kinds import RESTART_S
from treadle.policies.simple.orders import arrival


class Synergy(Ordered):
    """First come, first served at the asked size and plan; cores to the jobs that gain most.

    strict: a job that does not fit blocks all behind it. restart_s: what changing the cores of a
    running job costs; it is done where the job then ends sooner.
    """

    def __init__(
        self,
        placement: Placement,
        belief: PerformanceModel,
        *,
        strict: bool = False,
        restart_s: float = RESTART_S,
    ) -> None:
        if not restart_s >= 0:
            raise InvalidInputError(f"synergy restart_s must be 0 or more, not {restart_s:g}")
        super().__init__(arrival, placement, strict=strict)
        self._curves = Curves(belief, plans=False, resources=False)
        self._restart_s = restart_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        schedule = super().decide(snapshot)
        self._curves.on(snapshot.cluster)
        hosts = Hosts(snapshot, self._curves, self._restart_s, lambda _: True)
        changes = {
            identity: None if new is None else self._as_asked(snapshot.jobs[identity], new)
            for identity, new in schedule.changes.items()
        }
        return replace(schedule, changes=hosts.settled(changes))

    def _as_asked(self, job: Job, allocation: Allocation) -> Allocation:
        """The same under its user's plan, where there is one."""
        plan = job.spec.plans[0]
        return allocation if plan == DATA_PARALLEL else replace(allocation, plan=plan)
