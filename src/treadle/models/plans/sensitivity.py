"""How fast a job would be with more or fewer devices: sensitivity curves, and what is promised.

A curve gives the speed of the best plan for each size, over the speed that the user would have had
with the asked size under the user's own plan: 1 is what was asked for. Sizes that are not a
hundredth faster than a smaller one are left out, so asking for a useless amount gives the useful
one. Its `steps` are the corners of its upper hull: from one to the next, each device brings less
than the one before, and between them a device brings nothing at all. A job that trains only on 16
or 24 devices moves by eight.

Jobs that share model, asked size and plan share a curve. Jobs whose model is unknown have the
speeds that the belief gives for their own sizes, wherever the devices are.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

from treadle.core.cluster import Cluster
from treadle.core.job import JobId, JobSpec
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.ports import PerformanceModel, Revisable
from treadle.models.plans.iteration_time import Shape
from treadle.models.plans.layouts import NOTHING, layouts
from treadle.models.plans.layouts import shape as shape_of_counts
from treadle.models.plans.memory import memory
from treadle.models.plans.planned import alike, standard
from treadle.models.plans.space import Planner, dense
from treadle.models.sizes.hull import upper_hull

USEFUL = 1.01  # times as fast as the next smaller size, or a size is not worth having
KEPT_MAX = 65_536  # curves, and jobs whose curve is known
_CORES_MAX = 128  # for each device
ENOUGH = 1.0 - 1e-9  # as fast as what was asked for, but for rounding


@runtime_checkable
class Planning(Protocol):
    """A belief with its own idea of execution plans, which may change."""

    planner: Planner
    version: int


class Speed(NamedTuple):
    """What a job gets out of some devices."""

    value: float  # over what it asked for
    plan: Plan


class Step(NamedTuple):
    """A corner of a curve."""

    size: int
    speed: float
    slope: float  # of each device since the corner before


class CoreStep(NamedTuple):
    """What a job gets out of the same devices with so many cores for each."""

    cores: float
    speed: Speed


@dataclass(frozen=True, slots=True)
class Curve:
    """One kind of job."""

    sizes: tuple[tuple[int, float], ...]  # every size worth having with its speed, ascending
    steps: tuple[Step, ...]
    minimum: int  # fewest devices that are as fast as what was asked for
    fits: bool  # whether it runs on the empty cluster at all
    keeps: bool  # whether that is fast enough there: else no promise can be kept
    alike: object  # the same for curves that are equal
    # As they are asked about: by shape, and by shape and cores.
    shapes: dict[Shape, Speed | None] = field(default_factory=dict)
    by_cores: dict[tuple[Shape, float], tuple[CoreStep, ...]] = field(default_factory=dict)

    def above(self, size: int) -> Sequence[Step]:
        """The steps beyond so many devices."""
        return [step for step in self.steps if step.size > size]

    def gain(self, size: int) -> float:
        """What one more device would bring, with so many at hand; 0 at the end of the curve."""
        return next((step.slope for step in self.steps if step.size > size), 0.0)

    def floor(self, size: int, least: int, gain: float) -> int:
        """The size down to which devices bring less than this, and no less than the least."""
        while size > least:
            below = self.below(size)
            if self.gain(below) >= gain:
                break
            size = max(below, least)
        return size

    def below(self, size: int) -> int:
        """The next smaller step; 0 where there is none."""
        return max((step.size for step in self.steps if step.size < size), default=0)


class Curves:
    """The curves of all jobs on one kind of node.

    `plans`: every plan on offer counts; otherwise only those like the user's own. `resources`:
    sizes may differ from the one asked for. `pure`: only for jobs that do not split their model,
    as in Sia. `knee`: where a device brings less than this share of the first, a curve ends.
    """

    def __init__(
        self,
        belief: PerformanceModel,
        *,
        plans: bool = True,
        resources: bool = True,
        pure: bool = False,
        knee: float = 0.0,
    ) -> None:
        self._planning = belief if isinstance(belief, Planning) else None
        self._planner = self._base
        self._belief = belief
        self._plans = plans
        self._resources = resources
        self._pure = pure
        self._knee = knee
        self._revisable = belief if isinstance(belief, Revisable) else None
        # The job is kept so that its profile's identity stays its own.
        self._known: dict[Hashable, tuple[JobSpec, Curve]] = {}
        # By job, where only the job counts: the key is many words to look up by.
        self._jobs: dict[JobId, tuple[JobSpec, Curve]] = {}
        # What curves without plans consist of: they have all that such jobs' speeds depend on.
        self._alike: dict[Hashable, object] = {}
        self._cluster = Cluster(())
        self._version = -1  # how new the idea of plans is
        self.basis = object()  # another one whenever all curves are forgotten
        self._grid = (0, 1)  # devices of the cluster, and of its largest node

    def on(self, cluster: Cluster) -> None:
        """From now on this is the cluster."""
        version = 0 if self._planning is None else self._planning.version
        if cluster is self._cluster and version == self._version:
            return
        self._cluster, self._version = cluster, version
        # Jobs may run on where every node was drained.
        self._grid = (cluster.device_count, max(cluster.largest_node, 1))
        known = [n.memory_gib / n.device_count for n in cluster.nodes if n.memory_gib]
        base = self._base
        host_gib = min([*known, base.room.host_gib])
        self._planner = replace(base, room=replace(base.room, host_gib=host_gib), _kept={})
        self._forget()

    def _forget(self) -> None:
        self._known.clear()
        self._alike.clear()
        self._jobs.clear()
        self.basis = object()

    @property
    def _base(self) -> Planner:
        return standard() if self._planning is None else self._planning.planner

    @property
    def lasting(self) -> bool:
        """Whether a job has the same curve for as long as the basis is the same."""
        return self._revisable is None

    def of(self, spec: JobSpec) -> Curve:
        """The curve of a job."""
        mine = self._jobs.get(spec.id)
        if mine is not None and mine[0] is spec:
            return mine[1]
        planned = self.planned(spec)
        basis: Hashable = (spec.profile.model, spec.plans)
        if not planned:
            basis = id(spec.profile) if self._revisable is None else self._revisable.basis(spec)
        key = (basis, spec.asked, spec.sizes)
        if max(len(self._known), len(self._jobs)) >= KEPT_MAX:
            self._forget()
        if key not in self._known:
            self._known[key] = (spec, self._curve(spec))
        curve = self._known[key][1]
        if planned or self.lasting:
            self._jobs[spec.id] = (spec, curve)
        return curve

    def speed(self, spec: JobSpec, shape: Shape) -> Speed | None:
        """The best of the plans that a job may use on exactly these devices."""
        curve = self.of(spec)
        if shape not in curve.shapes:
            curve.shapes[shape] = self._speed(spec, shape)
        return curve.shapes[shape]

    def by_cores(self, spec: JobSpec, shape: Shape, least: float) -> tuple[CoreStep, ...]:
        """The same devices with ever more cores, as far as each step is worth having.

        Empty where no plan runs. Cores count only where the optimizer runs on the host.
        """
        curve = self.of(spec)
        known = curve.by_cores.get((shape, least))
        if known is None:
            known = curve.by_cores[shape, least] = tuple(self._core_steps(spec, shape, least))
        return known

    def under(self, spec: JobSpec, shape: Shape, plan: Plan) -> float:
        """How fast a job is on these devices under a plan, over what it asked for."""
        return self._fastest(spec, shape, [plan.on(sum(shape))], self._planner.cores).value

    def host_gib(self, spec: JobSpec, plan: Plan, size: int) -> float:
        """Host memory that a plan needs for each device."""
        return memory(self._planner.types[spec.profile.model].facts, plan, size).host_gib

    @property
    def cores(self) -> float:
        """Cores for each device with which jobs were measured."""
        return self._planner.cores

    def _core_steps(self, spec: JobSpec, shape: Shape, least: float) -> Iterator[CoreStep]:
        plans = self._runnable(spec, shape)
        if not plans:
            return
        best, limit = 0.0, self._fastest(spec, shape, plans, least + _CORES_MAX).value
        for more in range(_CORES_MAX):
            speed = self._fastest(spec, shape, plans, least + more)
            if speed.value > best * USEFUL:
                best = speed.value
                yield CoreStep(least + more, speed)
            if limit <= best * USEFUL:
                return

    def _fastest(self, spec: JobSpec, shape: Shape, plans: Iterable[Plan], cores: float) -> Speed:
        """The best of these plans with so many cores for each device."""
        kind = self._planner.types[spec.profile.model]
        timed = [(kind.iteration_s(plan, shape, cores=cores), plan) for plan in plans]
        seconds, plan = min(timed, key=lambda pair: pair[0])
        return Speed(self._asked_s(spec) / seconds, plan)

    def _runnable(self, spec: JobSpec, shape: Shape) -> list[Plan]:
        """The plans among which cores could decide: the best of each kind, host and device."""
        own, found = spec.plans[0], dict[bool, Plan]()
        for candidate in self._planner.candidates(spec.profile.model, shape):
            if not candidate.feasible:
                break
            if self._may_use(spec, candidate.plan):
                found.setdefault(candidate.plan.offload, candidate.plan)
        plans = list(found.values())
        # The user's own plan has run with what was asked for, whatever an estimate says.
        if sum(shape) == spec.asked and own not in plans and self._may_run(spec, own, shape):
            plans = [*plans, own] if self._plans else [own]
        return plans

    def planned(self, spec: JobSpec) -> bool:
        """Whether a job's model is known and its user named a plan."""
        return spec.plans[0] != DATA_PARALLEL and self._planner.type_of(spec) is not None

    def _sizes(self, spec: JobSpec) -> Sequence[int]:
        split = spec.plans[0].tensor > 1 or spec.plans[0].pipeline > 1
        if not self._resources or (self._pure and split):
            return (spec.asked,)
        return [size for size in spec.sizes if size <= self._grid[0]] or spec.sizes[:1]

    def _curve(self, spec: JobSpec) -> Curve:
        node = self._grid[1]
        found: list[tuple[int, float]] = []
        best = 0.0
        for size in self._sizes(spec):
            speed = self._speed(spec, dense(size, node))
            # What was asked for is worth having where nothing smaller is as fast.
            useful = 1.0 if size == spec.asked and best < ENOUGH else USEFUL
            if speed is not None and speed.value > best * useful:
                best = speed.value
                found.append((size, best))
        if not found:
            found = [(spec.asked, 1.0)]
        enough = [size for size, value in found if value >= ENOUGH and size <= spec.asked]
        fallback = [size for size, _ in found if size <= spec.asked] or [found[0][0]]
        minimum = enough[0] if enough else fallback[-1]
        sizes = [size for size, _ in found]
        promised = [size for size in sizes if minimum <= size <= max(spec.asked, minimum)]
        fits = self._runs_empty(spec, sizes, 0.0)
        keeps = bool(enough) and self._runs_empty(spec, promised, ENOUGH)
        facts = (tuple(found), tuple(_steps(found, self._knee)), minimum, fits, keeps)
        alike: object = object()
        if not self.planned(spec):
            alike = self._alike.setdefault((*facts, spec.asked), alike)
        return Curve(*facts, alike)

    def _runs_empty(self, spec: JobSpec, sizes: Iterable[int], least: float) -> bool:
        """Whether the job is as fast as that on one of these sizes of the empty cluster."""
        room = {node.name: node.device_count for node in self._cluster.nodes}
        for size in sizes:
            for counts in layouts(size, room, NOTHING):
                speed = self._speed(spec, shape_of_counts(counts))
                if speed is not None and speed.value >= least:
                    return True
        return False

    def _speed(self, spec: JobSpec, shape: Shape) -> Speed | None:
        if not self.planned(spec):
            asked = self._belief.alone(spec, spec.asked)
            return (
                Speed(self._belief.alone(spec, sum(shape)) / asked, DATA_PARALLEL)
                if asked
                else None
            )
        plans = self._runnable(spec, shape)
        return self._fastest(spec, shape, plans, self._planner.cores) if plans else None

    def _asked_s(self, spec: JobSpec) -> float:
        """One iteration as its user asked for it."""
        kind = self._planner.types[spec.profile.model]
        shape = dense(spec.asked, self._grid[1])
        return kind.iteration_s(spec.plans[0], shape, cores=self._planner.cores)

    def _may_run(self, spec: JobSpec, plan: Plan, shape: Shape) -> bool:
        """Whether a user's own plan can run so: groups inside nodes, within the host's memory."""
        if any(count % plan.tensor for count in shape):
            return False
        return self.host_gib(spec, plan, sum(shape)) <= self._planner.room.host_gib

    def _may_use(self, spec: JobSpec, plan: Plan) -> bool:
        return plan in spec.plans and (self._plans or alike(spec.plans[0], plan))


def _steps(found: Sequence[tuple[int, float]], knee: float) -> list[Step]:
    """The corners of the upper hull from (0, 0), as far as a device brings enough."""
    corners = [(0, 0.0), *upper_hull(found, straight=False)]
    steps = [
        Step(size, speed, (speed - slower) / (size - before))
        for (before, slower), (size, speed) in pairwise(corners)
    ]
    first = steps[0].slope
    return [step for step in steps if step.slope >= knee * first]
