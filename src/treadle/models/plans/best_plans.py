"""Execution plans: a job that its user gave a plan has the best one for its devices.

Its speed at each size is then that of the best plan, as in Rubick (sensitivity.py). The plan is
chosen once the devices are: it depends on how they lie on nodes. A job that stays on its devices
keeps its plan, so a plan changes only with a restart that is counted anyway.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel
from treadle.models.sizes.work import Alone

if TYPE_CHECKING:
    from treadle.models.plans.sensitivity import Curves


class BestPlans:
    """The best plan of each job as a model believes it."""

    def __init__(self, belief: PerformanceModel) -> None:
        self._belief = belief
        self._made: Curves | None = None
        self._cluster = Cluster(())
        self._otherwise: Alone = belief.alone

    def on(self, cluster: Cluster, otherwise: Alone) -> None:
        """From now on this is the cluster, and these are the speeds of jobs without a plan."""
        self._cluster = cluster
        self._otherwise = otherwise

    def alone(self, spec: JobSpec, size: int) -> float:
        """Iterations a second on so many devices, placed as well as can be."""
        curves = self._curves(spec)
        if curves is None:
            return self._otherwise(spec, size)
        from treadle.models.plans.space import dense  # noqa: PLC0415  # most runs need none

        found = curves.speed(spec, dense(size, max(self._cluster.largest_node, 1)))
        return 0.0 if found is None else self._belief.alone(spec, spec.asked) * found.value

    def named(
        self, jobs: Mapping[JobId, Job], allocations: Mapping[JobId, Allocation]
    ) -> dict[JobId, Allocation]:
        """The allocations, those that are new under the best plan for their devices."""
        return {
            identity: new if new is jobs[identity].allocation else self._best(jobs[identity], new)
            for identity, new in allocations.items()
        }

    def _best(self, job: Job, new: Allocation) -> Allocation:
        curves = self._curves(job.spec)
        if curves is None:
            return new
        from treadle.models.plans.space import shape_of  # noqa: PLC0415  # most runs need none

        found = curves.speed(job.spec, shape_of(new))
        if found is None or found.plan == new.plan:
            return new
        return replace(new, plan=found.plan)

    def _curves(self, spec: JobSpec) -> "Curves | None":
        """Rubick's curves, if the job has a plan and its model is known."""
        if spec.plans[0] == DATA_PARALLEL:
            return None
        if self._made is None:
            from treadle.models.plans.sensitivity import Curves  # noqa: PLC0415  # most runs need none

            self._made = Curves(self._belief)
        self._made.on(self._cluster)
        return self._made if self._made.planned(spec) else None
