"""Check a simulation for broken promises: guaranteed jobs that run slower than promised.

A guaranteed job is promised the speed of what its user asked for, as soon as its tenant's quota
covers the fewest devices that give this speed. It may be slower for one decision, while other jobs
make room. A promise is broken if it still is after the next decision and some time.
"""

from collections.abc import Iterator, Sequence

from treadle.core.actions import Action
from treadle.core.events import Event
from treadle.core.job import Job, JobId
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.policies.base.quotas import Left, Quotas
from treadle.policies.rubick.curves import ENOUGH, Curves
from treadle.policies.rubick.holdings import counted, shape


class Promises:
    """An observer of a run under quotas."""

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
        owed = {job.id for job in self._owed(scheduler)}
        self.broken |= {job for job in owed if now > self._since.get(job, now)}
        self._since = {job: self._since.get(job, now) for job in owed}

    def _owed(self, scheduler: Scheduler) -> Iterator[Job]:
        promised = [job for job in scheduler.jobs.values() if self._has_promise(job)]
        left = Left(self._quotas, scheduler.cluster.device_count)
        for job in promised:
            if job.allocation is not None:
                left.use(job.spec, self._curves.of(job.spec).minimum)
        for job in promised:
            if job.allocation is None:
                lacks = self._curves.of(job.spec).minimum <= left.of(job.spec)
            else:
                lacks = self._is_slow(job)
            if lacks:
                yield job
            else:
                self.kept += job.allocation is not None

    def _has_promise(self, job: Job) -> bool:
        """Whether the empty cluster and the whole quota could give the promised speed."""
        curve = self._curves.of(job.spec)
        quota = self._quotas.get(job.spec.tenant, 0.0)
        return job.spec.guaranteed and curve.keeps and curve.minimum <= quota

    def _is_slow(self, job: Job) -> bool:
        assert job.allocation is not None, "asked only for jobs that hold devices"
        if job.size >= job.spec.asked:
            return False  # It has the size its user asked for.
        speed = self._curves.speed(job.spec, shape(counted(job.allocation.devices)))
        return speed is None or speed.value < ENOUGH
