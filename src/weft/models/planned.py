"""Speed by plan: the performance model of jobs whose model type is known.

A trace's job has so many iterations, and one of them takes `profile.iteration_s` at the size the
user asked for, under the user's plan. The plan model says how much faster or slower another
allocation is than that; only the ratio is used, so a job takes as long as its trace says where it
gets what it asked for. Jobs of unknown models are left to another performance model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.core.allocation import Allocation
from weft.core.job import JobSpec, Profile
from weft.core.plan import Plan
from weft.core.ports import PerformanceModel
from weft.models.plan_space import Planner, dense

_Key = tuple[int, int, Plan]


@dataclass(frozen=True)
class PlannedModel:
    """A performance model over a planner; sharing a device divides it evenly."""

    planner: Planner
    otherwise: PerformanceModel
    node: int = 8  # devices of a node, for placements as good as can be
    # Speeds of the asked size under the asked plan, over one iteration a second; the profile is
    # kept so that its identity stays its own.
    _asked: dict[_Key, tuple[Profile, float]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def alone(self, spec: JobSpec, size: int) -> float:
        if self.planner.type_of(spec) is None:
            return self.otherwise.alone(spec, size)
        best = self.planner.best(spec.profile.model, dense(size, self.node))
        return 0.0 if best is None else self._scale(spec) / best.iteration_s

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        seconds = self.planner.iteration_s(spec, allocation)
        if seconds is None:
            return self.otherwise.iterations_per_s(spec, allocation, ring)
        return self._scale(spec) / seconds / (len(ring) + 1)

    def _scale(self, spec: JobSpec) -> float:
        """Predicted seconds of the job as it was asked for, over what its profile says."""
        profile, plan = spec.profile, spec.plans[0]
        key = (id(profile), spec.asked, plan)
        known = self._asked.get(key)
        if known is None:
            model = self.planner.types[profile.model]
            shape = dense(spec.asked, self.node)
            seconds = model.iteration_s(plan, shape, cores=self.planner.cores)
            known = self._asked[key] = (profile, seconds / profile.iteration_s)
        return known[1]
