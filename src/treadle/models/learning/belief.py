"""What policies believe of speeds that they must learn: the learner as a performance model.

The truth is hidden; the belief sees what runs. How jobs go together it may ask only of jobs of
which the like was seen alone: that is when the share of time is measured that they need of each
resource. Others are expected to gain nothing by sharing. A unit of work is one iteration here.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence

from treadle.core.actions import Action
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.events import Event, JobProgressed, JobStarted
from treadle.core.job import Job, JobSpec
from treadle.core.ports import InterleavingModel
from treadle.core.scheduler import Observer, Scheduler
from treadle.models.learning.kinds import Kinds, by_model
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.learning.spread import spread_of
from treadle.models.learning.unlike import type_of
from treadle.models.lengths.indexing import KnownLengths, LengthAware

SPEEDS_MAX = 100_000
NOMINAL_PER_S = 1.0  # iterations on one device, of jobs of which nothing was seen


class Learned(LengthAware):
    """Speeds alone by what was observed; the model says how jobs go together, and only that."""

    def __init__(self, model: InterleavingModel) -> None:
        self.knowledge = Knowledge()
        self.cluster: Cluster | None = None  # as it is now; None: how devices lie is not known
        self.kinds: Kinds = by_model
        self._model = model
        self._seen_alone: set[str] = set()  # models, or jobs that name none
        # Answers since something was last measured: policies ask the same several times in a
        # decision. By job, model, asked size and size.
        self._speeds: dict[tuple[str, str, int, int], float] = {}
        self._bases: dict[tuple[str, str, int], int] = {}
        self._measured = 0
        self.lengths = KnownLengths(self)  # what is known of lengths

    def observe(
        self,
        spec: JobSpec,
        size: int,
        iterations_per_s: float,
        *,
        shared: bool = False,
        spread: str = "",
        device_type: str = "",
    ) -> None:
        """Take in that the job ran at that speed on so many devices; spread: how they lay."""
        if not iterations_per_s > 0:
            return
        if not shared:
            self._seen_alone.add(spec.profile.model or spec.id)
        seen = Outcome(
            size,
            0.0,
            step_s=1.0 / iterations_per_s,
            shared=shared,
            spread=spread,
            device_type=device_type,
        )
        self.knowledge.observe(self.kinds(spec), seen)

    def basis(self, spec: JobSpec) -> int:
        """What the answers about a job rest on: they are equal while this is."""
        self._forget_if_measured()
        key = (spec.id, spec.profile.model, spec.asked)
        found = self._bases.get(key)
        if found is None:
            pace = self.knowledge.pace(self.kinds(spec))
            found = self._bases[key] = 0 if pace is None else pace.version
        return found

    def alone(self, spec: JobSpec, size: int) -> float:
        self._forget_if_measured()
        key = (spec.id, spec.profile.model, spec.asked, size)
        speed = self._speeds.get(key)
        if speed is None:
            speed = self._speeds[key] = self._alone(spec, size)
        return speed

    def _forget_if_measured(self) -> None:
        if self._measured != self.knowledge.measured or len(self._speeds) > SPEEDS_MAX:
            self._speeds.clear()
            self._bases.clear()
            self._measured = self.knowledge.measured

    def _alone(self, spec: JobSpec, size: int) -> float:
        pace = self.knowledge.pace(self.kinds(spec))
        if pace is None:
            # As in CoDDL (Hwang et al., NSDI'21): "overestimate first, re-adjust later".
            return NOMINAL_PER_S * size
        return 1.0 / pace.curve.seconds(size)

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        speed = self.alone(spec, len(allocation.devices)) * self._apart(spec, allocation)
        if self.cluster is not None and len(self.cluster.by_type) > 1:
            found = dict(self.knowledge.needs.by_type(self.kinds(spec)))
            speed *= found.get(type_of(allocation.nodes(), self.cluster.nodes), 1.0)
        if not ring:
            return speed
        model = self._model
        shared = model.iterations_per_s(spec, allocation, ring)
        return speed * shared / model.iterations_per_s(spec, allocation, ())

    def _apart(self, spec: JobSpec, allocation: Allocation) -> float:
        """The factor of a placement on more nodes or racks than are needed."""
        nodes = allocation.nodes()
        if len(nodes) == 1 or self.cluster is None:
            return 1.0
        spread = spread_of(nodes, allocation.size, self.cluster)
        return self.knowledge.needs.apart(self.kinds(spec)).factor(spread)

    def kind(self, spec: JobSpec) -> Hashable:
        """Policies keep tables of groups by kind: a job that was seen is of another kind."""
        return (self._seen((spec,)), self._model.kind(spec))

    def together(self, specs: Sequence[JobSpec]) -> tuple[float, ...]:
        if len(specs) > 1 and not self._seen(specs):
            return tuple(self.alone(spec, spec.asked) / len(specs) for spec in specs)
        shared = self._model.together(specs)
        return tuple(
            self.alone(spec, spec.asked) * speed / self._model.alone(spec, spec.asked)
            for spec, speed in zip(specs, shared, strict=True)
        )

    def efficiency(self, specs: Sequence[JobSpec]) -> float:
        known = len(specs) == 1 or self._seen(specs)
        return self._model.efficiency(specs) if known else 0.0

    def _seen(self, specs: Sequence[JobSpec]) -> bool:
        """Whether the like of all was seen alone, at any size; others gain nothing by sharing."""
        return all((spec.profile.model or spec.id) in self._seen_alone for spec in specs)


# A speed as it is measured, of a job on so many devices that runs at that speed.
Measure = Callable[[JobSpec, int, float], float]


def learning(belief: Learned, measure: Measure | None = None) -> Observer:
    """Feed a belief from a loop; `measure` may add errors to what it sees."""

    def observe(
        now: float,  # noqa: ARG001
        events: Sequence[Event],
        actions: Sequence[Action],  # noqa: ARG001
        scheduler: Scheduler,
    ) -> None:
        belief.cluster = scheduler.cluster
        for job, speed, shared in _reports(events, scheduler):
            measured = speed if measure is None else measure(job.spec, job.size, speed)
            assert job.allocation is not None
            spread = spread_of(job.allocation.nodes(), job.size, scheduler.cluster)
            belief.observe(
                job.spec,
                job.size,
                measured,
                shared=shared,
                spread=spread,
                device_type=type_of(job.allocation.nodes(), scheduler.cluster.nodes),
            )

    return observe


def seen_alone(events: Sequence[Event], scheduler: Scheduler) -> Iterator[tuple[Job, float]]:
    """Jobs that report their speed on devices that they still hold and do not share."""
    return ((job, speed) for job, speed, shared in _reports(events, scheduler) if not shared)


def _reports(events: Sequence[Event], scheduler: Scheduler) -> Iterator[tuple[Job, float, bool]]:
    """Jobs that report their speed on devices that they still hold; whether they share them."""
    tenants = scheduler.tenancy.tenants
    for event in events:
        if isinstance(event, JobStarted | JobProgressed):
            job = scheduler.jobs.get(event.job)
            if job is not None and event.action == job.action and job.allocation is not None:
                shared = any(len(tenants[device]) > 1 for device in job.allocation.devices)
                yield job, event.iterations_per_s, shared
