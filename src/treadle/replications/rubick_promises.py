"""Check a simulation for broken promises: guaranteed jobs that run slower than promised.

A guaranteed job is promised the speed of what its user asked for, as soon as its tenant's quota
covers the fewest devices that give this speed. It may be slower for one decision, while other jobs
make room. A promise is broken if it still is after the next decision and some time.

A job that runs with fewer devices until its promise can be kept is restarted to get the rest of
them. Near its end a restart takes longer than the promised speed would save: it would only end
later, so it is owed nothing.
"""

from collections.abc import Iterator, Sequence

from treadle.core.actions import Action
from treadle.core.events import Event
from treadle.core.job import Job, JobId
from treadle.core.scheduler import Scheduler
from treadle.models.change_costs import restart_s
from treadle.models.plans.sensitivity import ENOUGH, Curves
from treadle.models.plans.space import shape_of
from treadle.models.scaling import ScalingModel
from treadle.policies.base.quotas import Left
from treadle.policies.rubick.kinds import RESTART_S
from treadle.wire.quotas import Quotas


class Promises:
    """An observer of a run under quotas and the default rules."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._curves = Curves(ScalingModel())
        self._decisions = 0
        self._since: dict[JobId, float] = {}  # jobs below their promise, and since when
        self.broken: set[JobId] = set()
        self.kept = 0  # times that a guaranteed job had its promised speed

    def __call__(
        self,
        now: float,
        events: Sequence[Event],  # noqa: ARG002
        actions: Sequence[Action],  # noqa: ARG002
        scheduler: Scheduler,
    ) -> None:
        if scheduler.decisions == self._decisions:
            return
        self._decisions = scheduler.decisions
        self._curves.on(scheduler.cluster)
        owed = {job.id for job in self._owed(scheduler, now)}
        self.broken |= {job for job in owed if now > self._since.get(job, now)}
        self._since = {job: self._since.get(job, now) for job in owed}

    def _owed(self, scheduler: Scheduler, now: float) -> Iterator[Job]:
        promised = [job for job in scheduler.jobs.values() if self._has_promise(job)]
        left = Left(self._quotas, scheduler.cluster.device_count)
        for job in promised:
            if self._has_its_size(job):
                left.use(job.spec, self._curves.of(job.spec).minimum)
        for job in promised:
            if not self._has_its_size(job):
                covered = self._curves.of(job.spec).minimum <= left.of(job.spec)
                lacks = covered and self._would_end_sooner(job, now)
            else:
                lacks = self._is_slow(job)
            if lacks:
                yield job
            else:
                self.kept += self._has_its_size(job)

    def _has_its_size(self, job: Job) -> bool:
        """A job with fewer devices than that waits for its promise, whether it runs or not."""
        return job.size >= self._curves.of(job.spec).minimum

    def _has_promise(self, job: Job) -> bool:
        """Whether the empty cluster and the whole quota could give the promised speed."""
        curve = self._curves.of(job.spec)
        quota = self._quotas.get(job.spec.tenant, 0.0)
        return job.spec.guaranteed and curve.keeps and curve.minimum <= quota

    def _would_end_sooner(self, job: Job, now: float) -> bool:
        """Whether the promised speed would save a job more than a restart costs."""
        if not job.iterations_per_s:
            return True  # It waits or is starting.
        left_s = job.remaining_at(now) / job.iterations_per_s
        saved_s = left_s * (1.0 - self._speed(job) / ENOUGH)
        return saved_s > restart_s(job.spec, RESTART_S)

    def _is_slow(self, job: Job) -> bool:
        if job.size >= job.spec.asked:
            return False  # It has the size its user asked for.
        return self._speed(job) < ENOUGH

    def _speed(self, job: Job) -> float:
        """As a multiple of the speed of what the user asked for."""
        assert job.allocation is not None, "asked only for jobs that hold devices"
        speed = self._curves.speed(job.spec, shape_of(job.allocation))
        return 0.0 if speed is None else speed.value
