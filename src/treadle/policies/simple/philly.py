"""Philly's scheduler, as far as its study describes it (Jeon et al., ATC'19).

docs/philly.md says what it does. A job that waits does so for its tenant's share ("fair share") or
for want of a place. When it tries next, and after how many failed tries, is handed from decision to
decision as the schedule's memory; without it all jobs try at once.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.ranking import Rank
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot
from treadle.core.why import reason_of, too_few
from treadle.core.wording import too_large
from treadle.policies.base.placement import Count, Placement
from treadle.policies.simple.philly_tries import ROUNDING, Memory, Rules, Wait
from treadle.wire.quotas import by_tenant

# Nodes of each virtual cluster of the released log, as Helios' simulator takes them to be.
PHILLY_NODES: Mapping[str, float] = {
    "6214e9": 64,
    "7f04ca": 32,
    "11cb48": 16,
    "b436b2": 64,
    "ee9e8c": 64,
    "e13805": 16,
    "6c71a0": 32,
    "2869ce": 16,
    "ed69ec": 8,
    "103959": 8,
    "0e4a51": 32,
}


class Philly(Policy):
    """Quotas by tenant, with borrowing; gangs that give up locality after failed tries.

    quotas: equal, philly (nodes of the log's virtual clusters), or weights as a:2/b:1.
    granted: how many times the cluster all quotas are. most: quotas a tenant may hold by borrowing.
    r1, r2: failed tries after which twice the nodes in one rack, and any, will do.
    retry_s: between two tries. tick_s: tries after the first are made in steps of this.
    full, patience_s: when to take back borrowed devices. The placement is for first tries.
    """

    def __init__(  # noqa: PLR0913  # one for each thing that the study leaves open
        self,
        placement: Placement,
        belief: PerformanceModel,  # noqa: ARG002
        *,
        quotas: str = "equal",
        granted: float = 1.0,
        most: float = inf,
        r1: int = 3,
        r2: int = 8,
        retry_s: float = 180.0,
        tick_s: float = 30.0,
        full: float = 0.9,
        patience_s: float = 600.0,
    ) -> None:
        if not 0 <= r1 <= r2:
            raise InvalidInputError(f"philly r1 and r2 must ascend from 0, not {r1} and {r2}")
        if not (0 < retry_s < inf and 0 < tick_s < inf):
            raise InvalidInputError("philly retry_s and tick_s must be above 0")
        if not 0 < granted < inf:
            raise InvalidInputError(f"philly granted must be above 0, not {granted:g}")
        if not most >= 1:
            raise InvalidInputError(f"philly most must be 1 (no borrowing) or above, not {most:g}")
        tries, weights = (r1, r2), _weights(quotas)
        self._rules = Rules(weights, granted, most, tries, retry_s, tick_s, full, patience_s)
        self._places = Places(placement)

    def rank(self, job: Job, now: float) -> Rank:  # noqa: ARG002
        """By submission; a job that failed joins the end."""
        return Rank(job.since_at if job.failures else job.submitted_at)

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        if spec.asked > cluster.device_count:
            return too_large(spec.asked, cluster.device_count)
        return None

    def decide(self, snapshot: Snapshot) -> Schedule:
        if not snapshot.ranking.queue:
            return Schedule(memory=Memory())
        decision = _Decision(snapshot, self._rules, self._places)
        decision.run()
        until = decision.vain_until()
        return Schedule(decision.changes, until, Memory(decision.waits, until))

    def held_back(self, snapshot: Snapshot) -> Mapping[int, int]:
        jobs = snapshot.jobs
        return Counter(
            [
                jobs[identity].spec.asked
                for identity, (_, _, fair_share) in _memory(snapshot).waits.items()
                if fair_share and identity in jobs
            ]
        )

    def quotas(self, snapshot: Snapshot) -> Mapping[str, float]:
        return Shares(snapshot, self._rules).quotas()

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        row = snapshot.jobs[job]
        wait = _memory(snapshot).at(snapshot.now, self._rules).get(job)
        tenant, size = row.spec.tenant, row.spec.asked
        if row.phase is not Phase.WAITING or wait is None:
            return reason_of(snapshot, job, self._places.ideal.place)
        if wait.fair_share:
            shares = Shares(snapshot, self._rules)
            used, quota = shares.used[tenant], shares.quota(tenant)
            counts = {"quota": quota, "used": used, "asked": size}
            return Reason("quota", {"tenant": tenant, **counts})
        in_s = max(wait.next_try_at - snapshot.now, 0.0)
        numbers = {"asked": size, "tries": wait.tries, "level": self._rules.level(wait.tries)}
        return too_few(snapshot, size) or Reason("tries", {**numbers, "in_s": in_s})


class Shares:
    """What tenants use, want and are entitled to."""

    def __init__(self, snapshot: Snapshot, rules: Rules) -> None:
        self._most = rules.most
        self.used: Counter[str] = Counter()
        self._wanted: dict[str, Counter[int]] = {}  # jobs that wait, by tenant and size
        for job in snapshot.jobs.values():
            self.used[job.spec.tenant] += job.size
        for job in snapshot.waiting():
            self._wanted.setdefault(job.spec.tenant, Counter())[job.spec.asked] += 1
        self._weights = rules.weights or dict.fromkeys(self.used, 1.0)
        # Tenants without a quota have one like the smallest, beyond what is shared out.
        self._least = min(self._weights.values(), default=1.0)
        whole = sum(self._weights.values()) or 1.0
        self._each = snapshot.cluster.device_count * rules.granted / whole

    def quota(self, tenant: str) -> float:
        """Devices that a tenant is entitled to."""
        return self._each * self._weights.get(tenant, self._least)

    def quotas(self) -> Mapping[str, float]:
        """Of those that have a weight or a job."""
        return {tenant: self.quota(tenant) for tenant in {*self._weights, *self.used}}

    def load(self, tenant: str) -> float:
        return self.used[tenant] / max(self.quota(tenant), ROUNDING)

    def within(self, tenant: str, size: int) -> bool:
        """Whether so many more would still be within the quota."""
        return self.used[tenant] + size <= self.quota(tenant) + ROUNDING

    def allowed(self, tenant: str, size: int) -> bool:
        """Whether so many more would be within what it may hold, borrowed ones included.

        A job that is larger than that runs when its tenant holds nothing else.
        """
        used = self.used[tenant]
        return not used or used + size <= self._most * self.quota(tenant) + ROUNDING

    def wanted(self, but: str) -> bool:
        """Whether another tenant waits for devices that it is entitled to."""
        return any(
            count and tenant != but and self.within(tenant, size)
            for tenant, sizes in self._wanted.items()
            for size, count in sizes.items()
        )

    def start(self, job: Job) -> None:
        self.used[job.spec.tenant] += job.spec.asked
        self._wanted[job.spec.tenant][job.spec.asked] -= 1


class Places:
    """Devices at a level of locality: the fewest nodes, twice as many in a rack, any."""

    def __init__(self, ideal: Placement) -> None:
        self.ideal = ideal
        self._any = Count()
        self._cluster: Cluster | None = None
        self._racks: dict[str, list[str]] = {}
        self._least: dict[int, int] = {}  # by size: the first level with a place if all is free

    def find(
        self, cluster: Cluster, free: FreeDevices, size: int, level: int
    ) -> tuple[Device, ...] | None:
        """The best place that the level allows; no job waits for one that can never be."""
        if size > free.total:
            return None
        if cluster is not self._cluster:
            self._cluster, self._racks, self._least = cluster, {}, {}
            for node in cluster.nodes:
                self._racks.setdefault(node.rack, []).append(node.name)
        if size not in self._least:
            all_free = free.emptied()
            levels = (least for least in (0, 1) if self._place(all_free, size, least))
            self._least[size] = next(levels, 2)
        return self._place(free, size, max(level, self._least[size]))

    def _place(self, free: FreeDevices, size: int, level: int) -> tuple[Device, ...] | None:
        nodes = -(-size // free.largest)
        single = nodes == 1
        devices = self.ideal.place(free, size) if single else self._in_a_rack(free, size, nodes)
        if devices is None and level >= 1:
            devices = self._in_a_rack(free, size, 2 * nodes)
        if devices is None and level >= 2:
            devices = self._any.place(free, size)
        return devices

    def _in_a_rack(self, free: FreeDevices, size: int, most: int) -> tuple[Device, ...] | None:
        """Up to so many nodes, in the rack that needs the fewest."""
        best: list[tuple[int, str]] | None = None
        for names in self._racks.values():
            counts = sorted(((free.count_on(name), name) for name in names), reverse=True)[:most]
            while counts and sum(count for count, _ in counts) - counts[-1][0] >= size:
                counts.pop()
            enough = sum(count for count, _ in counts) >= size
            if enough and (best is None or len(counts) < len(best)):
                best = counts
        if best is None:
            return None
        devices: list[Device] = []
        for count, name in best:
            devices += free.pick_on(name, min(count, size - len(devices)))
        return tuple(devices)


# Tenant, size, level of locality, and whether it has waited for long enough to preempt others.
_Kind = tuple[str, int, int, bool]
# A place for a job, and the jobs that are to be stopped for it.
_Room = tuple[tuple[Device, ...], Sequence[Job]]


class _Decision:
    """One look at those who may try now."""

    def __init__(self, snapshot: Snapshot, rules: Rules, places: Places) -> None:
        self.changes: dict[JobId, Allocation | None] = {}
        self.waits: dict[JobId, Wait] = {}  # of those that do not try now, and those that fail
        self._snapshot = snapshot
        self._rules = rules
        self._places = places
        self._shares = Shares(snapshot, rules)
        self._free = snapshot.free.copy()
        self._again_at = rules.next_try_at(snapshot.now)
        self._before = _memory(snapshot).at(snapshot.now, rules)
        # Many try for hours, of few kinds: what each of them finds until another job starts.
        self._sought: dict[_Kind, _Room | bool] = {}

    def run(self) -> None:
        """Tenants by what they use of their quotas, the least first; in a tenant by rank."""
        queues: dict[str, deque[Job]] = {}
        for job in self._snapshot.waiting():
            wait = self._before.get(job.id)
            if wait is None or wait.next_try_at <= self._snapshot.now:
                queues.setdefault(job.spec.tenant, deque()).append(job)
            else:
                self.waits[job.id] = wait
        heap = [(self._shares.load(tenant), tenant) for tenant in queues]
        heapify(heap)
        while heap:
            _, tenant = heappop(heap)
            self._try(queues[tenant].popleft())
            if queues[tenant]:
                heappush(heap, (self._shares.load(tenant), tenant))

    def vain_until(self) -> float:
        """Until when every try fails as the last one of its job did, if nothing else happens."""
        waits, rules = self.waits, self._rules
        if self.changes:  # What they leave free is not known yet.
            return min((wait.next_try_at for wait in waits.values()), default=inf)
        until = inf
        for identity, wait in waits.items():
            job = self._snapshot.jobs[identity]
            patient, level = wait.is_patient(job.since_at, rules), rules.level(wait.tries)
            same = self._seek((job.spec.tenant, job.spec.asked, level, patient)) is wait.fair_share
            until = min(until, wait.changes_at(job.since_at, rules) if same else wait.next_try_at)
        return until

    def _try(self, job: Job) -> None:
        rules, wait = self._rules, self._before.get(job.id)
        tries = 0 if wait is None else wait.tries
        patient = self._snapshot.now - job.since_at > rules.patience_s
        found = self._seek((job.spec.tenant, job.spec.asked, rules.level(tries), patient))
        if isinstance(found, bool):
            failed = tries if found else tries + 1
            self.waits[job.id] = Wait(self._again_at, failed, fair_share=found)
            return
        devices, victims = found
        for victim in victims:
            assert victim.allocation is not None, "holding jobs hold"
            self._free.give(victim.allocation.devices)
            self._shares.used[victim.spec.tenant] -= victim.size
            self.changes[victim.id] = None
        self._free.take(devices)
        self._shares.start(job)
        self._sought.clear()
        self.changes[job.id] = Allocation(devices)

    def _seek(self, kind: _Kind) -> _Room | bool:
        """Where such a job could run, or whether it waits for its tenant's share."""
        if kind not in self._sought:
            self._sought[kind] = self._found(*kind)
        return self._sought[kind]

    def _found(self, tenant: str, size: int, level: int, patient: bool) -> _Room | bool:
        entitled = self._shares.within(tenant, size)
        if not entitled and not self._may_borrow(tenant, size):
            return True
        devices = self._places.find(self._snapshot.cluster, self._free, size, level)
        if devices is not None:
            return devices, ()
        return (entitled and patient and self._is_full() and self._take_back(size, level)) or False

    def _may_borrow(self, tenant: str, size: int) -> bool:
        """Whether it may hold and find so many more, and no tenant within its quota waits."""
        shares = self._shares
        allowed = shares.allowed(tenant, size) and size <= self._free.total
        return allowed and not shares.wanted(tenant)

    def _is_full(self) -> bool:
        devices = self._snapshot.cluster.device_count
        return devices - self._free.total >= self._rules.full * devices

    def _take_back(self, size: int, level: int) -> _Room | None:
        """The place there is once the youngest jobs on borrowed devices are stopped, if any."""
        free, used = self._free.copy(), Counter(self._shares.used)
        above = {tenant for tenant in used if used[tenant] > self._shares.quota(tenant)}
        if not above:
            return None
        victims: list[Job] = []
        running = [
            job
            for job in self._snapshot.holding()
            if job.spec.tenant in above and job.id not in self.changes
        ]
        for job in sorted(running, key=lambda job: (-job.begun_at, -job.sequence)):
            tenant = job.spec.tenant
            if used[tenant] <= self._shares.quota(tenant):
                continue
            assert job.allocation is not None, "holding jobs hold"
            free.give(job.allocation.devices)
            used[tenant] -= job.size
            victims.append(job)
            devices = self._places.find(self._snapshot.cluster, free, size, level)
            if devices is not None:
                return devices, victims
        return None


def _memory(snapshot: Snapshot) -> Memory:
    return snapshot.memory if isinstance(snapshot.memory, Memory) else Memory()


def _weights(text: str) -> Mapping[str, float]:
    """`equal`, `philly`, or a weight for each tenant: a:2/b:1."""
    if text in {"equal", "philly"}:
        return PHILLY_NODES if text == "philly" else {}
    weights = by_tenant("philly", text)
    if not all(weights.values()):
        raise InvalidInputError(f"philly quotas are weights above 0, not {text!r}")
    return weights
