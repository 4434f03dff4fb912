"""Execution plans as policies believe them: wrong at first, and fitted again by what is seen.

The truth is hidden: a belief has a planner of its own, whose factors may be far off. Every report
of how fast a job runs alone is a measurement of its plan on its devices; where the predictions of a
model type are too far from them, the type is fitted again (plan_refit.py), and whatever policies
concluded from the old one is forgotten by its `version`.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from treadle.core.actions import Action
from treadle.core.events import Event
from treadle.core.job import Job, JobSpec
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import InterleavingModel
from treadle.core.scheduler import Observer, Scheduler
from treadle.models.learned import seen_alone
from treadle.models.model_wrapper import ModelWrapper
from treadle.models.noisy import log_normal
from treadle.models.plans.fit import KNOBS, SEVEN, Run
from treadle.models.plans.iteration_time import ModelType
from treadle.models.plans.refit import Refitting
from treadle.models.plans.space import Planner, shape_of


class PlanBelief(ModelWrapper):
    """What is believed of plans; `model` answers everything else, on the same planner."""

    def __init__(
        self, model: InterleavingModel, planner: Planner, refitting: Refitting | None = None
    ) -> None:
        """`refitting` owns the planner's types; None: nothing is ever learned."""
        super().__init__(model)
        self.planner = planner
        self.version = 0  # times that a type was fitted again
        self._refitting = refitting

    @property
    def learned(self) -> str:
        """What became of the belief, in words."""
        if self._refitting is None:
            return "they stay so"
        times = "once" if self.version == 1 else f"{self.version} times"
        return f"model types were fitted again {times}"

    def observe(self, job: Job, iterations_per_s: float) -> None:
        """Take in how fast a job runs that has its devices to itself."""
        spec, allocation = job.spec, job.allocation
        if self._refitting is None or allocation is None or not iterations_per_s > 0:
            return
        # Only steps of jobs that name their plan take what the plan model says.
        if spec.plans[0] == DATA_PARALLEL or self.planner.type_of(spec) is None:
            return
        plan = spec.plans[0] if allocation.plan == DATA_PARALLEL else allocation.plan
        if not plan.fits(allocation.size):
            return
        cores = self.planner.cores if allocation.host is None else allocation.host.cores
        run = Run(plan, shape_of(allocation), 1000.0 / iterations_per_s, cores=cores)
        if self._refitting.observe(spec.profile.model, run) is not None:
            self.version += 1
            self.planner.forget()

    def basis(self, spec: JobSpec) -> Hashable:
        return (spec.id, self.version)


def watching(belief: PlanBelief) -> Observer:
    """Feed a belief from a loop, live or simulated."""

    def observe(
        now: float,  # noqa: ARG001
        events: Sequence[Event],
        actions: Sequence[Action],  # noqa: ARG001
        scheduler: Scheduler,
    ) -> None:
        for job, speed in seen_alone(events, scheduler):
            belief.observe(job, speed)

    return observe


def misjudged_types(
    types: Mapping[str, ModelType], *, spread: float, seed: int
) -> dict[str, ModelType]:
    """Model types whose seven factors are off, each by a log-normal error of its own."""
    wrong: dict[str, ModelType] = {}
    for name, model in types.items():
        for factor in SEVEN:
            knob = KNOBS[factor]
            value = knob.read(model)
            off = value * log_normal(spread, seed=seed, name=f"{name}/{factor}")
            least = min(knob.lower, value)
            model = knob.set(model, min(max(off, least), knob.upper))  # noqa: PLW2901
        wrong[name] = model
    return wrong


def believed(planner: Planner, *, spread: float, seed: int) -> tuple[Planner, Refitting]:
    """A planner of one's own with factors that are off, and what can mend it."""
    refitting = Refitting(misjudged_types(planner.types, spread=spread, seed=seed))
    return replace(planner, types=refitting.types, _kept={}), refitting
