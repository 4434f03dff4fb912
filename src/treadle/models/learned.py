"""A belief that learns how fast jobs run by watching them: overestimate first, correct later.

CoDDL (Hwang et al., NSDI'21) starts a job that nobody has measured with a generous share, because
giving devices up is cheap and getting more is not. So here: a job of which nothing was seen is
taken to scale linearly. Once it was seen at one size, its curve goes through that point with a
serial share of a tenth, more caution than six of the nine models of CoDDL's evaluation call for.
From two sizes on, the time of one iteration is fitted by A / n + B, neither below 0, to the squares
of relative errors.

What was measured holds at its size. Between measured sizes the fit's error there is interpolated,
and beyond them it is that of the nearest, so the curve has no steps. Both terms see to it that
nothing outside the measured sizes is thought better than linear: no larger size gains more than
its devices, no smaller one loses more.

What it may know besides are stages: what jobs do within an iteration, relative to each other and
therefore how sharing slows them. How many iterations a second that is, it must see.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from treadle.core.actions import Action
from treadle.core.allocation import Allocation
from treadle.core.events import Event, JobProgressed, JobStarted
from treadle.core.job import Job, JobSpec
from treadle.core.ports import InterleavingModel
from treadle.core.scheduler import Observer, Scheduler
from treadle.models.fitted import Point, non_negative_least_squares
from treadle.models.scaling import interpolate

NOMINAL_PER_S = 1.0  # iterations of one device, of jobs that nobody has seen
SERIAL = 0.1  # of jobs seen at one size
DRIFT = 0.15  # a measurement that is further off than this replaces what was known
CURVES_MAX = 10_000
SIZES_MAX = 128  # of one curve; beyond that, what was measured longest ago is forgotten

Key = Callable[[JobSpec], Hashable]


def by_model(spec: JobSpec) -> Hashable:
    """Jobs of one model that ask for as many devices are taken to train alike.

    The size is part of it because the batch grows with it, and an iteration with the batch.
    """
    return (spec.profile.model, spec.asked) if spec.profile.model else spec.id


def by_job(spec: JobSpec) -> Hashable:
    """Everybody learns for itself, as CoDDL's jobs do."""
    return spec.id


@dataclass(frozen=True, slots=True)
class _Curve:
    """What was measured of jobs alike, and what follows for other sizes."""

    version: int  # no two curves ever have the same
    measured: dict[int, float]  # size -> seconds of one iteration, the newest last
    terms: tuple[float, float]  # A and B
    errors: tuple[Point, ...]  # measured over fitted, by ascending size

    @classmethod
    def through(cls, measured: dict[int, float], version: int) -> "_Curve":
        points = sorted(measured.items())
        terms = _fit(points)
        errors = tuple((size, seconds / _fitted(terms, size)) for size, seconds in points)
        return cls(version, measured, terms, errors)

    def iteration_s(self, size: int) -> float:
        return _fitted(self.terms, size) * interpolate(self.errors, size)

    def with_point(self, size: int, seconds: float, version: int) -> "_Curve":
        """With a further measurement; itself if that says nothing new."""
        known = self.measured.get(size)
        if known == seconds:
            return self
        if known is not None and abs(seconds - known) <= DRIFT * known:
            seconds = (known + seconds) / 2.0  # Noise, rather than a change.
        others = [(s, t) for s, t in self.measured.items() if s != size]
        return _Curve.through(dict([*others, (size, seconds)][-SIZES_MAX:]), version)


class Learned:
    """Speeds alone by what was observed; the model says how jobs go together, and only that."""

    def __init__(
        self, model: InterleavingModel, *, key: Key = by_model, nominal_per_s: float = NOMINAL_PER_S
    ) -> None:
        self._model = model
        self._key = key
        self._nominal_per_s = nominal_per_s
        self._curves: dict[Hashable, _Curve] = {}
        self._versions = 0

    def observe(self, spec: JobSpec, size: int, iterations_per_s: float) -> None:
        """Take in that the job ran at that speed on so many devices, and shared none."""
        if not iterations_per_s > 0:
            return
        key, seconds = self._key(spec), 1.0 / iterations_per_s
        known = self._curves.get(key)
        if known is None:
            if len(self._curves) >= CURVES_MAX:
                del self._curves[next(iter(self._curves))]
            curve = _Curve.through({size: seconds}, self._versions + 1)
        else:
            curve = known.with_point(size, seconds, self._versions + 1)
        if curve is not known:
            self._curves.pop(key, None)  # So that the one changed longest ago stands first.
            self._curves[key] = curve
            self._versions += 1

    def basis(self, spec: JobSpec) -> int:
        """What the answers about a job rest on: they are equal while this is."""
        known = self._curves.get(self._key(spec))
        return 0 if known is None else known.version

    def alone(self, spec: JobSpec, size: int) -> float:
        known = self._curves.get(self._key(spec))
        return self._nominal_per_s * size if known is None else 1.0 / known.iteration_s(size)

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        speed = self.alone(spec, len(allocation.devices))
        if not ring:
            return speed
        model = self._model
        shared = model.iterations_per_s(spec, allocation, ring)
        return speed * shared / model.iterations_per_s(spec, allocation, ())

    def kind(self, spec: JobSpec) -> Hashable:
        return self._model.kind(spec)

    def together(self, specs: Sequence[JobSpec]) -> tuple[float, ...]:
        shared = self._model.together(specs)
        return tuple(
            self.alone(spec, spec.asked) * speed / self._model.alone(spec, spec.asked)
            for spec, speed in zip(specs, shared, strict=True)
        )

    def efficiency(self, specs: Sequence[JobSpec]) -> float:
        return self._model.efficiency(specs)


# A speed as it is measured: of a job on so many devices that runs at that speed.
Gauge = Callable[[JobSpec, int, float], float]


def learning(belief: Learned, gauge: Gauge | None = None) -> Observer:
    """Feed a belief from a loop, live or simulated."""

    def observe(
        now: float,  # noqa: ARG001
        events: Sequence[Event],
        actions: Sequence[Action],  # noqa: ARG001
        scheduler: Scheduler,
    ) -> None:
        for job, speed in seen_alone(events, scheduler):
            measured = speed if gauge is None else gauge(job.spec, job.size, speed)
            belief.observe(job.spec, job.size, measured)

    return observe


def seen_alone(events: Sequence[Event], scheduler: Scheduler) -> Iterator[tuple[Job, float]]:
    """Jobs that report their speed on devices that they hold still and share with nobody."""
    for event in events:
        if isinstance(event, JobStarted | JobProgressed):
            job = scheduler.jobs.get(event.job)
            if job is not None and event.action == job.action and _is_alone(job, scheduler):
                yield job, event.iterations_per_s


def _is_alone(job: Job, scheduler: Scheduler) -> bool:
    tenants = scheduler.tenancy.tenants
    return job.allocation is not None and all(
        len(tenants[device]) == 1 for device in job.allocation.devices
    )


def _fit(points: Sequence[Point]) -> tuple[float, float]:
    """A and B of A / n + B; of a single point by the serial share that is assumed."""
    if len(points) == 1:
        return (1.0 - SERIAL, SERIAL)
    rows = [[1.0 / (size * seconds), 1.0 / seconds] for size, seconds in points]
    shared, fixed = non_negative_least_squares(rows, [1.0] * len(rows))
    return (shared, fixed)


def _fitted(terms: tuple[float, float], size: int) -> float:
    shared, fixed = terms
    return shared / size + fixed
