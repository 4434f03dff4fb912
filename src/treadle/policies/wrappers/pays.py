"""No change of a running job that cannot pay for itself before the job ends.

A stop or another size costs the job a restart: the seconds from the order to the first new step. A
job that ends within twice that time is left alone. One that would grow must gain more than the
restart costs. Sizes that were never measured are expected to be fast (AFS 5.5: overestimate first,
then correct), so a job that grows to one is on probe: only one job at a time, and only if the gain
would pay for the way back as well.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from treadle.core.allocation import Allocation
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import named_jobs, span
from treadle.policies.base.placement import Placement
from treadle.policies.wrappers.wrapper import Wrapper, worn

UNKNOWN_S = 10.0  # what a restart is taken to cost of a job that was never seen to restart
ROUNDS_MAX = 8  # decisions that are taken again because one of their changes does not pay
PROBE_S = 300.0  # a job that has run so long at a new size and said nothing is on probe no more
ENDING = 2.0  # a job that ends within so many restarts is left alone
_NAMED_MAX = 3


def pays(
    inner: Policy,
    placement: Placement,  # noqa: ARG001
    belief: PerformanceModel,
    *,
    unknown_s: float = UNKNOWN_S,
) -> "Pays":
    """Running jobs are stopped or resized only if that pays before they end.

    unknown_s: what a restart is taken to cost of a job that was never seen to restart.
    """
    if not 0 <= unknown_s < inf:
        raise InvalidInputError(f"pays unknown_s must be 0 or more, not {unknown_s:g}")
    return Pays(inner, belief, unknown_s)


class Pays(Wrapper):
    """Hides jobs whose change would not pay, and decides again about the rest."""

    def __init__(self, inner: Policy, belief: PerformanceModel, unknown_s: float) -> None:
        super().__init__(inner)
        self._belief = belief
        self._unknown_s = unknown_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        kept = {job.id: job for job in self._ending(snapshot)}
        for _ in range(ROUNDS_MAX):
            schedule = self.inner.decide(snapshot.keeping(kept.values()))
            losing = self._losing(snapshot, schedule)
            if not losing:
                return schedule
            kept |= {job.id: job for job in losing}
        # A policy that finds ever new changes: none of what runs is changed this time.
        kept |= {job.id: job for job in snapshot.holding() if job.phase is Phase.RUNNING}
        return self.inner.decide(snapshot.keeping(kept.values()))

    def inside(self, snapshot: Snapshot) -> Snapshot:
        return snapshot.keeping(self._ending(snapshot))

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        if snapshot.jobs[job].allocation is not None:
            return self.inner.why(snapshot, job)
        return self._ends_soon(snapshot, job) or self.inner.why(self.inside(snapshot), job)

    def _ends_soon(self, snapshot: Snapshot, job: JobId) -> Reason | None:
        """The jobs that would make way for it if they did not end so soon, if that is it."""
        ending = {other.id: other for other in self._ending(snapshot)}
        if not ending:
            return None
        changes = self.inner.decide(snapshot).changes
        yielding = [name for name in ending if name in changes]
        if changes.get(job) is None or not yielding:
            return None
        now = snapshot.now
        left_s = max(self._left_s(ending[name], now) for name in yielding)
        whose = "is" if len(yielding) == 1 else "are"
        return Reason(
            "settling",
            f"{named_jobs(yielding, _NAMED_MAX)} would make way for it, but {whose} expected to "
            f"end in {span(left_s)}, before a restart could pay",
        )

    def why_not(self, job: Job, size: int, now: float) -> str | None:
        """Why a running job is not resized to a larger size, as a clause; None: it would pay."""
        if not self._ends_too_soon(job, now) and self._gains(job, size, now):
            return None
        if not job.spec.profile.restart_s:
            return "what a restart would cost is unknown, and it is not expected to pay"
        cost = span(job.spec.profile.restart_s)
        if _unmeasured(job, size):
            return f"a restart would cost {cost}, and so the way back, and not pay before it ends"
        return f"a restart would cost {cost} and not pay before it ends"

    def on_probe(self, jobs: Iterable[Job], job: Job, now: float) -> JobId | None:
        """Another job on probe that keeps this one from growing."""
        larger = [size for size in job.spec.sizes if size > job.size]
        if not larger or not all(_unmeasured(job, size) for size in larger):
            return None
        found = (other.id for other in jobs if other.id != job.id and self._on_probe(other, now))
        return next(found, None)

    # -- what does not pay ----------------------------------------------------------------------

    def _ending(self, snapshot: Snapshot) -> Iterator[Job]:
        """Running jobs that end so soon that no stop and no change can pay."""
        now = snapshot.now
        for job in snapshot.holding():
            if job.phase is Phase.RUNNING and self._ends_too_soon(job, now):
                yield job

    def _ends_too_soon(self, job: Job, now: float) -> bool:
        return self._left_s(job, now) <= ENDING * self._restart_s(job)

    def _losing(self, snapshot: Snapshot, schedule: Schedule) -> list[Job]:
        """Running jobs that would grow and not gain by it, and probes beyond the first."""
        found, now = [], snapshot.now
        probed = any(self._on_probe(job, now) for job in snapshot.holding())
        for identity, after in schedule.changes.items():
            job = snapshot.jobs[identity]
            if after is None or job.phase is not Phase.RUNNING or not self._grows(job, after):
                continue
            probe = _unmeasured(job, after.size)
            if not self._gains(job, after.size, now, after) or (probe and probed):
                found.append(job)
            probed = probed or probe
        return found

    def _grows(self, job: Job, after: Allocation) -> bool:
        return job.allocation is not None and after.size > job.size and self._restart_s(job) > 0

    def _gains(self, job: Job, size: int, now: float, after: Allocation | None = None) -> bool:
        """Whether a larger size saves more time than the restart costs, and the way back.

        after: the devices, where these are known.
        """
        cost_s = self._restart_s(job) * (2.0 if _unmeasured(job, size) else 1.0)
        return self._left_s(job, now) * (1.0 - self._ratio(job, size, after)) > cost_s

    def _ratio(self, job: Job, size: int, after: Allocation | None) -> float:
        """Time at the new size over time at the present one."""
        spec = job.spec
        if after is not None and job.allocation is not None and spec.profile.by_type:
            now = self._belief.iterations_per_s(spec, job.allocation, ())
            return now / self._belief.iterations_per_s(spec, after, ())
        return self._belief.alone(spec, job.size) / self._belief.alone(spec, size)

    def _on_probe(self, job: Job, now: float) -> bool:
        return (
            job.phase in (Phase.RUNNING, Phase.STARTING)
            and _unmeasured(job, job.size)
            and now - job.since_at < PROBE_S
        )

    def _left_s(self, job: Job, now: float) -> float:
        speed = job.iterations_per_s or self._belief.alone(job.spec, job.size)
        return job.remaining_at(now) / speed

    def _restart_s(self, job: Job) -> float:
        return job.spec.profile.restart_s or self._unknown_s


def why_no_larger(policy: Policy, job: Job, sizes: Sequence[int], now: float) -> str | None:
    """Why none of these larger sizes pays under a policy, as a clause; None: one does."""
    pays = worn(policy, Pays)
    found = [] if pays is None else [pays.why_not(job, size, now) for size in sizes]
    return found[0] if found and None not in found else None


def on_probe(policy: Policy, jobs: Iterable[Job], job: Job, now: float) -> JobId | None:
    """The other job that tries an unmeasured size under a policy, which this one would do too."""
    found = worn(policy, Pays)
    return None if found is None else found.on_probe(jobs, job, now)


def _unmeasured(job: Job, size: int) -> bool:
    """Whether other sizes of the job's kind were measured, and this one was not."""
    measured = job.spec.profile.measured
    return job.spec.elastic and bool(measured) and size not in measured
