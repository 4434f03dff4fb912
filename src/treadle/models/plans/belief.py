"""What policies believe about execution plans: wrong at first, and refitted from observations.

The truth is hidden: a belief has its own planner, whose factors may be far off. Every report of how
fast a job runs alone is a measurement of its plan on its devices. If the predictions for a model
type are too far off, the type is refitted (refit.py), and `version` changes, which invalidates what
policies cached from the old one.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from treadle.core.actions import Action
from treadle.core.events import Event
from treadle.core.job import Job, JobSpec
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import InterleavingModel
from treadle.core.scheduler import Observer, Scheduler
from treadle.core.wording import times
from treadle.models.learning.belief import seen_alone
from treadle.models.lengths.indexing import KnownLengths, LengthAware
from treadle.models.model_wrapper import ModelWrapper
from treadle.models.noisy import log_normal
from treadle.models.plans.fit import KNOBS, SEVEN, Run
from treadle.models.plans.iteration_time import ModelType
from treadle.models.plans.refit import Refitting
from treadle.models.plans.space import Planner, shape_of


class PlanBelief(LengthAware, ModelWrapper):
    """A belief about plans; `model` answers everything else, with the same planner."""

    def __init__(
        self, model: InterleavingModel, planner: Planner, refitting: Refitting | None = None
    ) -> None:
        """`refitting` owns the planner's types; None: the belief never learns."""
        super().__init__(model)
        self.planner = planner
        self.version = 0  # number of refits
        self._refitting = refitting
        self.lengths = KnownLengths(self)

    @property
    def learned(self) -> str:
        """What the belief learned, as a sentence."""
        if self._refitting is None:
            return "they stay so"
        return f"model types were fitted again {times(self.version)}"

    def observe(self, job: Job, iterations_per_s: float) -> None:
        """Record the speed of a job that has its devices to itself."""
        spec, allocation = job.spec, job.allocation
        if self._refitting is None or allocation is None or not iterations_per_s > 0:
            return
        # The plan model sets the step time only of jobs that name their plan.
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
    """Model types with a separate log-normal error on each of the seven factors."""
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
    """A separate planner with wrong factors, and the refitting that corrects it."""
    refitting = Refitting(misjudged_types(planner.types, spread=spread, seed=seed))
    return replace(planner, types=refitting.types, _kept={}), refitting
