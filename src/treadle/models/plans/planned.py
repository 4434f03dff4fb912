"""Speed by plan: the performance model of jobs whose model type is known.

In a trace an iteration takes `profile.iteration_s` at the size the user asked for, under the user's
plan. The plan model gives the speed of other allocations relative to that. Only the ratio is used,
so a job that gets what it asked for takes as long as in the trace. Jobs of unknown models use
another performance model.

Most policies do not choose plans. An allocation with the default plan leaves the choice open: the
job runs under its user's plan if that fits the size, else under the best plan. Every plan that
`offering` adds has an explicit data degree, so it cannot be confused with the default.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from treadle.core.allocation import Allocation
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.ports import PerformanceModel
from treadle.models.plans.catalogue import KNOWN
from treadle.models.plans.iteration_time import Shape
from treadle.models.plans.memory import Room
from treadle.models.plans.space import Candidate, Planner, dense, shape_of

_Key = tuple[int, int, Plan]


@dataclass(frozen=True)
class PlannedModel:
    """A performance model over a planner."""

    planner: Planner
    otherwise: PerformanceModel
    node: int = 8  # devices of a node, for placements as good as can be
    even: bool = True  # sharing divides a device evenly; False: a wrapping model handles sharing
    # Speeds of the asked size under the asked plan, over one iteration a second; the profile is
    # kept so that its identity stays its own.
    _asked: dict[_Key, tuple[Profile, float | None]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def alone(self, spec: JobSpec, size: int) -> float:
        scale = self._scale(spec)
        if scale is None:
            return self.otherwise.alone(spec, size)
        seconds = self._unnamed_s(spec, dense(size, self.node))
        return scale / seconds if seconds is not None else _uncut(spec, size)

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        scale = self._scale(spec)
        if scale is None:
            return self.otherwise.iterations_per_s(spec, allocation, ring)
        if allocation.plan == DATA_PARALLEL:
            host = allocation.host
            cores = self.planner.cores if host is None else host.cores
            seconds = self._unnamed_s(spec, shape_of(allocation), cores)
        else:
            seconds = self.planner.iteration_s(spec, allocation)
        speed = scale / seconds if seconds is not None else _uncut(spec, allocation.size)
        return speed / (len(ring) + 1 if self.even else 1)

    def _unnamed_s(self, spec: JobSpec, shape: Shape, cores: float | None = None) -> float | None:
        """Seconds of one iteration if the allocation names no plan; None if no plan runs."""
        plan, model = spec.plans[0], spec.profile.model
        cores = self.planner.cores if cores is None else cores
        if plan != DATA_PARALLEL and plan.fits(sum(shape)):
            return self.planner.types[model].iteration_s(plan, shape, cores=cores)
        best = self.planner.best(model, shape, cores)
        if best is not None:
            return best.iteration_s
        # If no plan is legal on this shape, use the one for fewer nodes.
        best = self.planner.best(model, dense(sum(shape), self.node), cores)
        if best is None:
            return None
        return self.planner.types[model].iteration_s(best.plan, shape, cores=cores)

    def _scale(self, spec: JobSpec) -> float | None:
        """Predicted over profiled iteration time of the job as the user asked for it.

        None if the model is unknown, or no plan runs at the asked size.
        """
        profile, plan = spec.profile, spec.plans[0]
        if self.planner.type_of(spec) is None:
            return None
        key = (id(profile), spec.asked, plan)
        known = self._asked.get(key)
        if known is None:
            seconds = self._unnamed_s(spec, dense(spec.asked, self.node))
            ratio = None if seconds is None else seconds / profile.iteration_s
            known = self._asked[key] = (profile, ratio)
        return known[1]


def _uncut(spec: JobSpec, size: int) -> float:
    """Speed if no plan is legal: the asked size, scaled linearly."""
    return size / (spec.profile.iteration_s * spec.asked)


@cache
def standard() -> Planner:
    """Rubick's seven models on servers of eight A800s: 80 GiB on a device and 200 on its host."""
    return Planner(KNOWN, Room(device_gib=80.0, host_gib=200.0), cores=4.0, micro_batches=False)


def offering(spec: JobSpec, planner: Planner, devices: int, node: int) -> JobSpec:
    """The job with every size that some plan runs on, and the useful plans there.

    Those are the best plan of each size, and the user's plan with more or fewer copies. A job that
    names its plan counts steps, and the plan model sets the time of a step; the work of other jobs
    is unchanged. A job whose model is unknown, or runs on no size, is returned unchanged.
    """
    if planner.type_of(spec) is None:
        return spec
    best = bests(planner, spec.profile.model, devices, node)
    named = spec.plans[0] != DATA_PARALLEL
    first = best.get(spec.asked)
    if not named and first is None:
        return spec
    own = spec.plans[0] if named or first is None else first.plan
    sizes = {*best, spec.asked}
    copies = [similar(own, size, planner, spec.profile.model, node) for size in sorted(sizes)]
    plans = (own, *(c.plan for c in copies if c), *(c.plan for c in best.values()), DATA_PARALLEL)
    profile = spec.profile
    if named:
        seconds = planner.types[profile.model].iteration_s(
            own, dense(spec.asked, node), cores=planner.cores
        )
        profile = replace(profile, alone_s=seconds)
    return replace(
        spec, sizes=tuple(sorted(sizes)), plans=tuple(dict.fromkeys(plans)), profile=profile
    )


def bests(planner: Planner, model: str, devices: int, node: int) -> dict[int, Candidate]:
    """The best plan of every size that has one, on the fewest nodes."""
    found = ((size, planner.best(model, dense(size, node))) for size in range(1, devices + 1))
    return {size: best for size, best in found if best is not None}


def similar(plan: Plan, size: int, planner: Planner, model: str, node: int) -> Candidate | None:
    """The fastest plan that differs from this one only in copies and micro-batches."""
    for candidate in planner.candidates(model, dense(size, node)):
        if candidate.feasible and alike(plan, candidate.plan):
            return candidate
    return None


def alike(one: Plan, other: Plan) -> bool:
    """Whether two plans split the model and save memory in the same way, except for sharding
    with one copy, which has nothing to shard."""
    if (one.tensor, one.pipeline, one.recompute) != (other.tensor, other.pipeline, other.recompute):
        return False
    if one.offload or other.offload:
        return one.offload == other.offload
    return one.shard == other.shard or 1 in {one.data, other.data}
