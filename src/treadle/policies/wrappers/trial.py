"""Try a job on one device before many are given to it.

Most failures of the Philly study come within minutes, on as many devices as the job asked for. Here
a job of several devices first runs on one, of a small pool; if it still runs after a while it lets
go, and the inner policy places all it asked for. A job that fails in its trial is tried again when
it is retried. What it did in its trial counts.

Inner policies do not see jobs in their trial, nor the devices these are on. Which elastic jobs are
in their trial is the wrapper's memory: after a restart they are taken to have passed.
"""

from collections.abc import Sequence
from math import inf

from treadle.core.allocation import Allocation
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.wrappers.views import letting_go, plain
from treadle.policies.wrappers.wrapper import Note, Remembering


class TrySmall(Remembering):
    """A job of several devices runs its first minutes on one.

    devices: trials at the same time. seconds: how long a trial takes.
    """

    def __init__(
        self,
        inner: Policy,
        placement: Placement,  # noqa: ARG002
        belief: PerformanceModel,  # noqa: ARG002
        *,
        devices: int = 2,
        seconds: float = 300.0,
    ) -> None:
        if devices < 1:
            raise InvalidInputError(f"try-small devices must be 1 or more, not {devices}")
        if not 0 < seconds < inf:
            raise InvalidInputError(f"try-small seconds must be above 0, not {seconds:g}")
        super().__init__(inner)
        self.in_order = False  # A job that joins may be tried at once.
        self.resizes = True  # After its trial a job gets all that it asked for.
        self._pool = devices
        self._trial_s = seconds

    def decide(self, snapshot: Snapshot) -> Schedule:
        now = snapshot.now
        trials = self._trials(snapshot)
        # A wrapper around this one may leave a job where it is, out of sight.
        over = [job for job in trials if now >= self._ends_at(job) and job.id in snapshot.ranking]
        on = [job for job in trials if job not in over]
        seen = letting_go(self.inside(snapshot), over)
        untried = [job for job in seen.waiting() if _untried(job)]
        begun = self._begun(seen, untried, self._pool - len(on))
        hidden = [job.id for job in (*on, *untried)]
        aside = [d for job in on if job.allocation is not None for d in job.allocation.devices]
        aside += [device for allocation in begun.values() for device in allocation.devices]
        seen = seen.hiding(hidden).withholding(aside) if hidden else seen
        schedule = self.inner.decide(seen)
        until = min((end for job in on if (end := self._ends_at(job)) > now), default=inf)
        if begun:
            until = min(until, now + self._trial_s)
        changes = {**{job.id: None for job in over}, **schedule.changes, **begun}
        # Those that are over too, which may be left where they are.
        given = {i for i, new in schedule.changes.items() if new is not None and new.size == 1}
        tried = {job.id for job in trials} - given
        memory = Note(frozenset((*tried, *begun)), schedule.memory)
        return Schedule(changes, min(until, schedule.valid_until), memory)

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        row, trials = snapshot.jobs[job], self._trials(snapshot)
        asked = row.spec.asked
        if row in trials:
            return Reason("trial", {"asked": asked, "in_s": self._ends_at(row) - snapshot.now})
        if row.allocation is None and _untried(row):
            free = snapshot.free.total
            numbers = {"asked": asked, "trials": len(trials), "most": self._pool, "free": free}
            return Reason("trial-queue", numbers)
        return self.inner.reason(self.inside(snapshot), job)

    def _trials(self, snapshot: Snapshot) -> list[Job]:
        """Jobs that are being tried now."""
        known = self.remembered(snapshot)
        names = known if isinstance(known, frozenset) else frozenset()
        return [
            job
            for job in snapshot.jobs.values()
            if job.size == 1 and job.spec.asked > 1 and (1 not in job.spec.sizes or job.id in names)
        ]

    def _ends_at(self, job: Job) -> float:
        return job.begun_at + self._trial_s

    def _begun(self, seen: Snapshot, untried: Sequence[Job], room: int) -> dict[JobId, Allocation]:
        """Trials that begin now, each on a device of the fullest node."""
        free = seen.free.copy()
        begun: dict[JobId, Allocation] = {}
        for job in untried[: max(room, 0)]:
            position = free.tightest(1)
            if position is None:
                break
            devices = free.pick(position, 1)
            free.take(devices)
            begun[job.id] = Allocation(devices)
        return begun


def _untried(job: Job) -> bool:
    """Whether every start so far ended in a failure, and it can be tried at all."""
    spec = job.spec
    return spec.asked > 1 and spec.runs_on(1) and plain(spec) and job.starts == job.failures
