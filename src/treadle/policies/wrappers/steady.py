"""Leave jobs alone that cannot be moved, or were moved only a moment ago.

A job that cannot resume would lose its work if it were stopped, so it is not stopped. Any other job
keeps what it was given for a while: a restart costs time, and a policy that changes its mind every
second would pay it every second. One whose training is over ends by itself, and a stop would only
cost what it still does: it is left alone until then. The inner policy does not see jobs that are
left alone, nor their devices, so that it decides about the rest only.

A rest is for jobs that are no more urgent. If one of a higher priority waits and cannot start
otherwise, the inner policy is asked again: it sees the jobs of lower priorities that rest, and of
those that wait only the urgent ones, so that no other gains by it. A job whose training is over
makes way for an urgent one only if it has not ended OVER_S later.
"""

from collections.abc import Sequence
from math import inf

from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import are, named_jobs, span
from treadle.policies.base.placement import Placement
from treadle.policies.wrappers.views import letting_go, starts
from treadle.policies.wrappers.wrapper import Wrapper, worn

_NAMED_MAX = 3
AGAIN_S = 1.0  # jobs that are not urgent are looked at so soon after an urgent one has started
REST_MIN_S = 5.0
OVER_S = 60.0  # what a job does after its training (evaluate, save) an urgent one waits for
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
    less where changes of its kind were measured and cost little. A job of a higher priority need
    not wait for either.
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
        ends = self._ends(snapshot)
        # Most jobs that are left alone never resume, and there is nothing to look at later.
        looked_at = [(job, end) for job, end in ends if end < inf or job.over_at is not None]
        until = min(
            (self._next_look(job, end, snapshot.now) for job, end in looked_at), default=inf
        )
        seen = snapshot.keeping([job for job, _ in ends])
        if seen.free.total or seen.tenants:
            schedule = self.inner.decide(seen)
        else:
            # Nothing to dispose of: a long queue need not be looked at to find that out.
            schedule = Schedule({}, inf, snapshot.memory)
        resting = [job for job, end in looked_at if end < inf or _has_lingered(job, snapshot.now)]
        urgent = self._urgent(snapshot, schedule, resting)
        schedule = schedule if urgent is None else urgent
        if until >= schedule.valid_until:
            return schedule
        return Schedule(schedule.changes, until, schedule.memory)

    @staticmethod
    def _next_look(job: Job, end: float, now: float) -> float:
        """When a job that is left alone is to be looked at again."""
        if job.over_at is None or now >= job.over_at + OVER_S:
            return end
        return min(end, job.over_at + OVER_S)

    def _ends(self, snapshot: Snapshot) -> list[tuple[Job, float]]:
        """Jobs that are left alone, and until when."""
        now, until = snapshot.now, self._until
        return [(job, end) for job in snapshot.holding() if (end := until(job)) > now]

    def _urgent(
        self, snapshot: Snapshot, schedule: Schedule, resting: Sequence[Job]
    ) -> Schedule | None:
        """A schedule in which jobs that rest make way for more urgent ones; None: none need to."""
        if not resting:
            return None
        lowest = min(job.spec.priority for job in resting)
        begun = starts(snapshot, schedule.changes)
        stuck = [
            job for job in snapshot.waiting() if job.spec.priority > lowest and job.id not in begun
        ]
        for level in sorted({job.spec.priority for job in stuck}, reverse=True):
            makes_way = [job for job in resting if job.spec.priority < level]
            found = self._making_way(snapshot, level, makes_way)
            wanted = {job.id for job in stuck}.intersection(starts(snapshot, found.changes))
            if not wanted:
                continue
            # Of those that rest, only the ones that must.
            given = {d for job in wanted for d in starts(snapshot, found.changes)[job].devices}
            must = [job for job in makes_way if not given.isdisjoint(_devices(job))]
            fewer = self._making_way(snapshot, level, must)
            found = fewer if wanted <= starts(snapshot, fewer.changes).keys() else found
            until = min(found.valid_until, snapshot.now + AGAIN_S)
            return Schedule(found.changes, until, found.memory)
        return None

    def _making_way(self, snapshot: Snapshot, level: int, makes_way: Sequence[Job]) -> Schedule:
        """What the inner policy does for waiting jobs of this priority and higher ones."""
        shown = {job.id for job in makes_way}
        alone = [job for job, _ in self._ends(snapshot) if job.id not in shown]
        others = [job.id for job in snapshot.waiting() if job.spec.priority < level]
        return self.inner.decide(snapshot.keeping(alone).hiding(others))

    def inside(self, snapshot: Snapshot) -> Snapshot:
        return snapshot.keeping([job for job, _ in self._ends(snapshot)])

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        row = snapshot.jobs[job]
        if row.allocation is not None:
            return self.inner.why(snapshot, job)
        found = self._about_to_end(snapshot, job) or self._settling(snapshot, job)
        return found or self.inner.why(self.inside(snapshot), job)

    def left_alone_s(self, job: Job, now: float) -> float:
        return max(0.0, self._until(job) - now)

    def _about_to_end(self, snapshot: Snapshot, job: JobId) -> Reason | None:
        """The jobs that end by themselves in a moment, if this one would start then."""
        over = [
            other
            for other in snapshot.holding()
            if other.over_at is not None
            and all(len(snapshot.tenants.get(device, ())) == 1 for device in _devices(other))
        ]
        if not over:
            return None
        names = [other.id for other in over]
        alone = [other for other, _ in self._ends(snapshot) if other.id not in names]
        ended = letting_go(snapshot, over).hiding(names)
        if self.inner.decide(ended.keeping(alone)).changes.get(job) is None:
            return None
        said = "has ended its training and is left to end by itself"
        if len(over) > 1:
            said = "have ended their training and are left to end by themselves"
        return Reason("settling", f"{named_jobs(names, _NAMED_MAX)} {said}")

    def _settling(self, snapshot: Snapshot, job: JobId) -> Reason | None:
        """The jobs that would make way if they were not left alone for a while, if that is it."""
        now, own = snapshot.now, snapshot.jobs[job].spec.priority
        kept, resting = list[Job](), dict[JobId, float]()
        for other in snapshot.holding():
            end = self._until(other)
            if end == inf:
                kept.append(other)
            elif end > now and other.spec.priority >= own:
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
        if not job.spec.resumable or job.phase is Phase.STARTING or job.over_at is not None:
            return inf
        if job.phase is not Phase.RUNNING:
            return inf  # It is on its way out.
        rest_s, cost_s = self._rest_s, job.spec.profile.restart_s
        if cost_s > 0:  # measured
            rest_s = min(rest_s, max(REST_MIN_S, COSTS * cost_s))
        return max(job.begun_at + self._run_s, job.since_at + rest_s)


def _has_lingered(job: Job, now: float) -> bool:
    """Whether its training is over and it has not ended for so long that an urgent one may go."""
    resumes = job.spec.resumable and job.phase is Phase.RUNNING
    return resumes and job.over_at is not None and now >= job.over_at + OVER_S


def _devices(job: Job) -> tuple[Device, ...]:
    return () if job.allocation is None else job.allocation.devices
