"""Quotas bind every policy the same way: what a tenant is entitled to, it gets.

A guaranteed job is within its tenant's quota if the quota suffices for it beside those before it.
Such jobs are decided about first, and may take what others were lent. All other jobs run on loans.
A loan goes only to a job that can give it back: one that can resume, ends within LENT_S, or may be
paused and leaves half of its device's memory then. What the quotas of all tenants together leave of
the cluster is not a loan and goes to any job.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from treadle.core.allocation import Allocation
from treadle.core.company import needed_gib, smallest_device_gib
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Snapshot
from treadle.policies.base.shares import kept
from treadle.policies.live.costs import left_s
from treadle.policies.live.eligibility import Level
from treadle.policies.live.may_pause import MayPause
from treadle.policies.live.plan import Plan
from treadle.wire.quotas import Quotas

OWED, LENT = 0, 1  # the tiers of jobs
LENT_S = 10.0


def by_priority(job: Job, tier: int = LENT) -> Level:
    return (tier, -job.spec.priority)


class Entitlements:
    """Which jobs are within their tenants' quotas at one decision."""

    def __init__(
        self,
        snapshot: Snapshot,
        quotas: Quotas,
        belief: PerformanceModel,
        may_pause: MayPause,
        *,
        resizes: bool,
    ) -> None:
        self._snapshot, self._belief, self._quotas = snapshot, belief, quotas
        self._may_pause, self._resizes = may_pause, resizes
        self._spare = snapshot.supply - sum(quotas.values())  # devices that no quota covers
        self._left = dict(quotas)
        self.tiers: dict[JobId, int] = {}
        for job in self._in_order():
            size, tenant = job.least(resizes=resizes), job.spec.tenant
            owed = job.spec.guaranteed and size <= self._left.get(tenant, 0.0)
            self.tiers[job.id] = OWED if owed else LENT
            if owed:
                self._left[tenant] -= size

    def level_of(self, job: Job) -> Level:
        """Owed jobs first, then by priority."""
        return by_priority(job, self.tiers.get(job.id, LENT))

    def _in_order(self) -> Iterable[Job]:
        """Jobs as they are counted: by priority, those that run before those that wait."""
        seen = {job.id for job in self._snapshot.waiting()}
        running = [
            job
            for job in self._snapshot.jobs.values()
            if job.allocation is not None and job.id not in seen
        ]
        running.sort(key=lambda job: (job.begun_at, job.sequence))
        both = [*running, *self._snapshot.waiting()]
        return sorted(both, key=lambda job: -job.spec.priority)

    def used(self, plan: Plan) -> dict[str, int]:
        """Devices of each tenant once a plan is made."""
        found = dict.fromkeys(self._quotas, 0)
        for job in self._snapshot.jobs.values():
            held = plan.has(job.id)
            if held is not None:
                found[job.spec.tenant] = found.get(job.spec.tenant, 0) + held.size
        return found

    def may_have(self, plan: Plan, job: Job, size: int) -> bool:
        """Whether a job may be started with so many devices: it could give back what is lent."""
        if self._gives_back(job) or self._ends_soon(job):
            return True
        if self.tiers.get(job.id) == OWED and size <= self._own(plan, job):
            return True
        return size <= self._spare - self._not_returned(plan)

    def never_lent(self) -> set[JobId]:
        """Waiting jobs that may have no devices whatever others have."""
        return {
            job.id
            for job in self._snapshot.waiting()
            if self.tiers.get(job.id) == LENT
            and job.spec.sizes[0] > self._spare
            and not self._gives_back(job)
            and not self._ends_soon(job)
        }

    def _own(self, plan: Plan, job: Job) -> float:
        """What is left of its tenant's quota for the job."""
        others = sum(
            held.size
            for other in self._snapshot.jobs.values()
            if other.spec.tenant == job.spec.tenant
            and other.id != job.id
            and self.tiers.get(other.id) == OWED
            and (held := plan.has(other.id)) is not None
        )
        return self._quotas.get(job.spec.tenant, 0.0) - others

    def _not_returned(self, plan: Plan) -> int:
        """Devices that jobs beyond quotas have and cannot give back."""
        return sum(
            held.size
            for job in self._snapshot.jobs.values()
            if self.tiers.get(job.id) == LENT
            and not self._gives_back(job)
            and (held := plan.has(job.id)) is not None
        )

    def _gives_back(self, job: Job) -> bool:
        """Whether it can be stopped and go on later, or be frozen and leave half of the memory."""
        if job.spec.gives_way or job.phase is Phase.RUNNING:
            return job.spec.gives_way or (self._may_pause(job) and self._leaves_half(job.spec))
        one = job.spec.sizes[-1] == 1  # Of several devices some may be on other nodes.
        return one and self._may_pause.once_it_runs(job.spec) and self._leaves_half(job.spec)

    def _leaves_half(self, spec: JobSpec) -> bool:
        size_gib = smallest_device_gib(self._snapshot.cluster)
        return not size_gib or 0.0 < needed_gib(spec) <= size_gib / 2

    def _ends_soon(self, job: Job) -> bool:
        known = not job.spec.order_work
        return known and left_s(job, self._belief, self._snapshot.now) <= LENT_S

    def enforce(self, plan: Plan, waiting: Sequence[Job], fixed: Mapping[JobId, None]) -> None:
        """Start owed jobs that a policy left waiting, on what jobs have beyond quotas."""
        for job in waiting:
            if not self._may_start(job) or plan.has(job.id) is not None:
                continue
            size = job.least(resizes=self._resizes)
            surplus = self._surplus(plan, fixed)
            shrunk: list[tuple[Job, Allocation]] = []
            found = plan.room.place(job, size)
            while found is None and surplus:
                other, least = surplus.pop()
                held = plan.has(other.id)
                assert held is not None, "it has a surplus"
                shrunk.append((other, held))
                plan.stop(other)
                lead = other.spec.profile.lead
                fewer = kept(plan.room.free, held.devices, least, lead)
                plan.give(other, replace(held, devices=fewer))
                found = plan.room.place(job, size)
            if found is None:
                for other, held in reversed(shrunk):
                    plan.give(other, held)
                found = plan.make_room(job, size, self._lent(plan, fixed))
            if found is None:
                continue
            plan.give(job, Allocation(found))
            if shrunk:
                plan.urgent.add(job.id)

    def _may_start(self, job: Job) -> bool:
        """Whether it is owed devices, and could start without a plan that a policy chooses."""
        ready = job.ready_at <= self._snapshot.now and DATA_PARALLEL in job.spec.plans
        return ready and self.tiers.get(job.id) == OWED

    def _lent(self, plan: Plan, fixed: Mapping[JobId, None]) -> list[JobId]:
        """Running jobs beyond quotas that can make way, the first to do so first."""
        found = [
            job
            for job in self._snapshot.holding()
            if self.tiers.get(job.id) == LENT and (job.id not in fixed or plan.may_pause(job))
        ]
        return [job.id for job in sorted(found, key=self.level_of, reverse=True)]

    def _surplus(self, plan: Plan, fixed: Mapping[JobId, None]) -> list[tuple[Job, int]]:
        """Elastic jobs of tenants that have more than their quota, with the size that is left to
        them; the largest surplus last.
        """
        used = self.used(plan)
        found = []
        for job in self._snapshot.holding():
            held = plan.has(job.id)
            over = used.get(job.spec.tenant, 0) - self._quotas.get(job.spec.tenant, 0.0)
            if held is None or over <= 0 or job.id in fixed or held.plan != DATA_PARALLEL:
                continue
            if any(len(self._snapshot.tenants.get(device, ())) > 1 for device in held.devices):
                continue  # It shares them, and would have to leave.
            least = max(held.size - over, job.spec.sizes[0])
            fewer = [size for size in job.spec.sizes if least <= size < held.size]
            if fewer:
                found.append((held.size - fewer[0], job.sequence, job, fewer[0]))
        return [(job, size) for _, _, job, size in sorted(found, key=lambda each: each[:2])]
