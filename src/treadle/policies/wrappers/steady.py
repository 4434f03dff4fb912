"""Leave jobs alone that cannot be moved, or were moved only a moment ago.

A job that cannot resume would lose its work if it were stopped, so it is not stopped. Any other job
keeps what it was given for a while: a restart costs time, and a policy that changes its mind every
second would pay it every second. The inner policy does not see jobs that are left alone, nor their
devices, so that it decides about the rest only.
"""

from math import inf

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import are, named_jobs, span
from treadle.policies.base.placement import Placement
from treadle.policies.wrappers.wrapper import Wrapper, worn

_NAMED_MAX = 3
REST_MIN_S = 5.0
COSTS = 50.0  # a job that is changed again after this many times what a change costs loses 2 %


def steady(
    inner: Policy,
    placement: Placement,  # noqa: ARG001
    belief: PerformanceModel,  # noqa: ARG001
    *,
    run_s: float = 60.0,
    rest_s: float = 60.0,
) -> "Steady":
    """Jobs that cannot resume run on, and the others are left alone for a while.

    run_s: how long a job runs at least before it is stopped; rest_s: after a change of its size, or
    less where changes of its kind were measured and cost little.
    """
    for name, value in (("run_s", run_s), ("rest_s", rest_s)):
        if not 0 <= value < inf:
            raise InvalidInputError(f"steady {name} must be 0 or more, not {value:g}")
    return Steady(inner, run_s, rest_s)


def left_alone_s(policy: Policy, job: Job, now: float) -> float:
    """For how long a running job that can resume is still left alone under a policy; 0: no more."""
    found = worn(policy, Steady)
    return 0.0 if found is None else found.left_alone_s(job, now)


class Steady(Wrapper):
    """Hides jobs that must be left alone."""

    def __init__(self, inner: Policy, run_s: float, rest_s: float) -> None:
        super().__init__(inner)
        self._run_s = run_s
        self._rest_s = rest_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        now, until = snapshot.now, inf
        alone: list[Job] = []
        for job in snapshot.holding():
            end = self._until(job)
            if end > now:
                alone.append(job)
                until = min(until, end)
        seen = snapshot.keeping(alone)
        if not seen.free.total and not seen.tenants:
            # Nothing to dispose of: a long queue need not be looked at to find that out.
            return Schedule({}, until, snapshot.memory)
        schedule = self.inner.decide(seen)
        if until >= schedule.valid_until:
            return schedule
        return Schedule(schedule.changes, until, schedule.memory)

    def inside(self, snapshot: Snapshot) -> Snapshot:
        now = snapshot.now
        return snapshot.keeping([job for job in snapshot.holding() if self._until(job) > now])

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        row = snapshot.jobs[job]
        if row.allocation is not None:
            return self.inner.why(snapshot, job)
        return self._settling(snapshot, job) or self.inner.why(self.inside(snapshot), job)

    def left_alone_s(self, job: Job, now: float) -> float:
        return max(0.0, self._until(job) - now)

    def _settling(self, snapshot: Snapshot, job: JobId) -> Reason | None:
        """The jobs that would make way if they were not left alone for a while, if that is it."""
        now = snapshot.now
        kept, resting = list[Job](), dict[JobId, float]()
        for other in snapshot.holding():
            end = self._until(other)
            if end == inf:
                kept.append(other)
            elif end > now:
                resting[other.id] = end
        if not resting:
            return None
        changes = self.inner.decide(snapshot.keeping(kept)).changes
        yielding = [name for name in resting if name in changes]
        if changes.get(job) is None or not yielding:
            return None
        over_s = max(resting[name] for name in yielding) - now
        last = snapshot.jobs[max(yielding, key=lambda name: resting[name])]
        ordered = last.action != last.attempt  # something after the order that started it
        changed = ordered and resting[last.id] > last.begun_at + self._run_s
        what = "a change of size" if changed else "a start"
        return Reason(
            "settling",
            f"{named_jobs(yielding, _NAMED_MAX)} would make way for it, but {are(len(yielding))} "
            f"left alone for a while after {what}; that is over in {span(over_s)}",
        )

    def _until(self, job: Job) -> float:
        """Until when it is left alone; what never resumes, for ever."""
        if not job.spec.resumable or job.phase is Phase.STARTING:
            return inf
        if job.phase is not Phase.RUNNING:
            return inf  # It is on its way out.
        rest_s, cost_s = self._rest_s, job.spec.profile.restart_s
        if cost_s > 0:  # measured
            rest_s = min(rest_s, max(REST_MIN_S, COSTS * cost_s))
        return max(job.begun_at + self._run_s, job.since_at + rest_s)
