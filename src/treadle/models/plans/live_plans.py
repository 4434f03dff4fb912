"""The plan models of live jobs, which run under `treadle.train` and can change their plan.

A job has a plan model if its user named its model (`--model`): that of the catalogue, or else one
made of what the job says of its size, with factors that suit no network in particular. The first
measured step sets how long its forward pass takes; later ones, under other plans and sizes, refit
the factors (refit.py). Jobs of one name share a plan model.

It changes by facts alone and not by being asked, so that a replay of the same facts has the same
plan models at each decision.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.company import smallest_device_gib
from treadle.core.job import Job, JobSpec
from treadle.core.live_plans import PLAN, ModelSize, allows, model_size
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.models.plans.catalogue import A800, KNOWN
from treadle.models.plans.iteration_time import Factors, ModelFacts, ModelType
from treadle.models.plans.memory import Room
from treadle.models.plans.space import Planner, dense, shape_of

if TYPE_CHECKING:
    from treadle.models.plans.fit import Run
    from treadle.models.plans.refit import Refitting

TYPES_MAX = 256
OF_EACH_SIZE = 4  # plans on offer: the best ones
DEVICE_GIB = 80.0  # where devices do not say
_FLOPS = 1e14  # of a device, until a step was measured
# Between those of the catalogue.
FACTORS = Factors(
    k_bwd=2.0, k_sync=1.5, k_opt=0.05, k_opt_off=2.0, k_const=5.0, k_off=50.0, k_swap=5.0
)


class LivePlans:
    """Plan models by the names of models, and what is on offer to jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self.types: dict[str, ModelType] = dict(KNOWN)
        self.planner = Planner(self.types)
        self.version = 0  # changes with every new idea of a type or of the nodes
        self._node = 8  # devices of the largest
        self._guessed: set[str] = set()  # no step was measured yet
        self._refitting: Refitting | None = None
        self._changed: dict[str, None] = {}  # types to be stored
        self.on(cluster)

    def on(self, cluster: Cluster) -> None:
        """From now on this is the cluster: plans are for its largest node and smallest device."""
        room = Room(device_gib=smallest_device_gib(cluster) or DEVICE_GIB)
        node = cluster.largest_node or 8
        if room != self.planner.room or node != self._node:
            self._node = node
            self.planner = Planner(self.types, room)
            self.version += 1

    def restore(self, name: str, model: ModelType, *, guessed: bool) -> None:
        """A type as an earlier controller knew it."""
        if name in self.types or len(self.types) < TYPES_MAX:
            self._put(name, model)
            self._changed.pop(name)
            if guessed:
                self._guessed.add(name)

    def changes(self) -> list[tuple[str, ModelType, bool]]:
        """Types that changed since this was last asked, and whether each is still a guess."""
        changed, self._changed = self._changed, {}
        return [(name, self.types[name], name in self._guessed) for name in changed]

    def meet(self, spec: JobSpec, words: Sequence[str]) -> None:
        """An attempt at a job began, and announced these words: its model may be a new one."""
        name, size = spec.profile.model, model_size(words)
        if not name or name in self.types or PLAN not in words:
            return
        if size is not None and len(self.types) < TYPES_MAX:
            self._put(name, _guess(name, size))
            self._guessed.add(name)

    def offered(self, spec: JobSpec, words: Sequence[str]) -> JobSpec:
        """The job with the plans that it can change to; words: what its attempt announced."""
        name = spec.profile.model
        if PLAN not in words or name not in self.types:
            return spec
        found = [Plan(data=spec.asked)]
        for devices in spec.sizes:
            best = [
                each.plan
                for each in self.planner.candidates(name, dense(devices, self._node))
                if each.feasible and allows(words, each.plan)
            ]
            found += best[:OF_EACH_SIZE]
        return replace(spec, plans=tuple(dict.fromkeys((*found, DATA_PARALLEL))))

    def observe(self, job: Job, steps_per_s: float) -> None:
        """A job that has its devices to itself takes so many steps a second."""
        spec, allocation = job.spec, job.allocation
        name = spec.profile.model
        if allocation is None or not steps_per_s > 0 or len(spec.plans) == 1:
            return
        if name not in self.types:
            return
        run = self._run(allocation, 1000.0 / steps_per_s)
        if name in self._guessed:
            self._guessed.discard(name)
            self._put(name, _with_step(self.types[name], run))
        refitting = self._refits()
        if name not in refitting.types:
            refitting.add(name, self.types[name])
        if refitting.observe(name, run) is not None:
            self._put(name, refitting.types[name])

    def _run(self, allocation: Allocation, step_ms: float) -> "Run":
        from treadle.models.plans.fit import Run  # noqa: PLC0415  # numpy loads slowly

        cores = self.planner.cores if allocation.host is None else allocation.host.cores
        return Run(allocation.plan.on(allocation.size), shape_of(allocation), step_ms, cores=cores)

    def _refits(self) -> "Refitting":
        from treadle.models.plans.refit import Refitting  # noqa: PLC0415  # as above

        if self._refitting is None:
            self._refitting = Refitting({})
        return self._refitting

    def _put(self, name: str, model: ModelType) -> None:
        self.types[name] = model
        self._changed[name] = None
        self.version += 1
        self.planner.forget()


def _guess(name: str, size: ModelSize) -> ModelType:
    """A model of that size, before any step of it was measured."""
    forward_ms = 2.0 * size.parameters * size.batch * size.sequence / _FLOPS * 1000.0
    facts = ModelFacts(
        name,
        size.parameters,
        size.batch,
        size.sequence,
        size.hidden,
        size.layers,
        size.heads,
        max(forward_ms, 1e-3),
    )
    return ModelType(facts, A800, FACTORS)


def _with_step(model: ModelType, run: "Run") -> ModelType:
    """The same with the forward pass that makes the measured step; what is fixed shrinks first."""
    fixed = min(1.0, run.iteration_ms / 2.0 / (FACTORS.k_const + FACTORS.k_swap))
    factors = replace(model.factors, k_const=FACTORS.k_const * fixed, k_swap=FACTORS.k_swap * fixed)
    low, high = 1e-6, 1e9
    for _ in range(80):
        middle = (low * high) ** 0.5
        facts = replace(model.facts, forward_ms=middle)
        made = ModelType(facts, model.links, factors)
        if made.times(run.plan, run.shape, cores=run.cores).iteration_ms < run.iteration_ms:
            low = middle
        else:
            high = middle
    return ModelType(replace(model.facts, forward_ms=low), model.links, factors)
