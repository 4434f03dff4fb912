"""Philly's scheduler, as far as its study describes it (Jeon et al., ATC'19).

Every tenant has a quota of the devices and a queue in order of submission; what is idle others may
borrow while no tenant within its quota waits, up to a limit if there is one. Jobs get all they ask
for or nothing, on as few nodes as they need, in one rack. A job that does not fit blocks no other.
It tries again every few minutes, and after so many failed tries it puts up with more nodes of one
rack, and then with any. Jobs are preempted only for fair share: if the cluster is nearly full and a
tenant within its quota has waited for long, the youngest jobs on borrowed devices go.

A job that waits does so for its tenant's share ("fair share") or for want of a place. When it tries
next, and after how many failed tries, is handed from decision to decision as the schedule's memory;
without it all jobs try at once.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

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
from treadle.policies.base.quotas import by_tenant
from treadle.policies.simple.philly_tries import ROUNDING, Memory, Rules, Wait

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


def philly(  # noqa: PLR0913  # one for each thing that the study leaves open
    placement: Placement,
    belief: PerformanceModel,  # noqa: ARG001
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
) -> "Philly":
    """Quotas by tenant, with borrowing; gangs that give up locality after failed tries.

    quotas: equal, philly (nodes of the log's virtual clusters), or weights as a:2/b:1.
    granted: how many times the cluster all quotas are. most: quotas a tenant may hold by borrowing.
    r1, r2: failed tries after which twice the nodes in one rack, and any, will do.
    retry_s: between two tries. tick_s: tries after the first are made in steps of this.
    full, patience_s: when to take back borrowed devices. The placement is for first tries.
    """
    if not 0 <= r1 <= r2:
        raise InvalidInputError(f"philly r1 and r2 must ascend from 0, not {r1} and {r2}")
    if not (0 < retry_s < inf and 0 < tick_s < inf):
        raise InvalidInputError("philly retry_s and tick_s must be above 0")
    if not 0 < granted < inf:
        raise InvalidInputError(f"philly granted must be above 0, not {granted:g}")
    if not most >= 1:
        raise InvalidInputError(f"philly most must be 1 (no borrowing) or above, not {most:g}")
    weights = _weights(quotas)
    rules = Rules(weights, granted, most, (r1, r2), retry_s, tick_s, full, patience_s)
    return Philly(placement, rules)


class Philly(Policy):
    """Virtual clusters on one pool of devices."""

    def __init__(self, placement: Placement, rules: Rules) -> None:
        self._rules = rules
        self._places = Places(placement)

    def rank(self, job: Job, now: float) -> Rank:  # noqa: ARG002
        """By submission; a job that failed joins the end."""
        return Rank(job.since_at if job.failures else job.submitted_at)

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        if spec.asked > cluster.device_count:
            return too_large(spec.asked, cluster.device_count)
        return None

    def decide(self, snapshot: Snapshot) -> Schedule:
        before = _memory(snapshot).at(snapshot.now, self._rules)
        due, waits = _due(snapshot, before)
        if not due and not waits:
            return Schedule(memory=Memory())
        decision = _Decision(snapshot, self._rules, self._places, before, waits)
        if due and not decision.all_fail(due):
            decision.run(due)
        until = decision.vain_until()
        return Schedule(decision.changes, until, Memory(waits, until))

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
        self._snapshot = snapshot
        self._started: list[Job] = []
        # Jobs that wait by tenant and size; None: not counted yet.
        self._wanted: dict[str, Counter[int]] | None = None
        self.used: Counter[str] = Counter()
        jobs = snapshot.jobs.values()
        for job in [job for job in jobs if job.allocation is not None]:
            self.used[job.spec.tenant] += job.size
        self._weights = rules.weights or dict.fromkeys([job.spec.tenant for job in jobs], 1.0)
        # Tenants without a quota have one like the smallest, beyond what is shared out.
        self._least = min(self._weights.values(), default=1.0)
        whole = sum(self._weights.values()) or 1.0
        self._each = snapshot.cluster.device_count * rules.granted / whole

    def quota(self, tenant: str) -> float:
        """Devices that a tenant is entitled to."""
        return self._each * self._weights.get(tenant, self._least)

    def quotas(self) -> Mapping[str, float]:
        """Of those that have a weight or a job."""
        tenants = {*self._weights, *(job.spec.tenant for job in self._snapshot.jobs.values())}
        return {tenant: self.quota(tenant) for tenant in tenants}

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
        if self._wanted is None:
            self._wanted = {}
            for job in self._snapshot.waiting():
                self._wanted.setdefault(job.spec.tenant, Counter())[job.spec.asked] += 1
        while self._started:
            spec = self._started.pop().spec
            self._wanted[spec.tenant][spec.asked] -= 1
        return any(
            self._fits(tenant, sizes) for tenant, sizes in self._wanted.items() if tenant != but
        )

    def start(self, job: Job) -> None:
        self.used[job.spec.tenant] += job.spec.asked
        self._started.append(job)

    def _fits(self, tenant: str, sizes: Mapping[int, int]) -> bool:
        """Whether some such job would be within the quota."""
        room = self.quota(tenant) - self.used[tenant] + ROUNDING
        return room >= 1 and any(size <= room for size, count in sizes.items() if count)


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


class _Room(NamedTuple):
    """A place for a job, and what is free and used once the jobs are stopped that are in it."""

    devices: tuple[Device, ...]
    victims: Sequence[Job]
    free: FreeDevices
    used: Counter[str]


class _Decision:
    """One look at those who may try now."""

    def __init__(
        self,
        snapshot: Snapshot,
        rules: Rules,
        places: Places,
        before: Mapping[JobId, Wait],
        waits: dict[JobId, Wait],
    ) -> None:
        self.changes: dict[JobId, Allocation | None] = {}
        self.waits = waits  # of those that do not try now, and those that fail
        self._before = before
        self._snapshot = snapshot
        self._rules = rules
        self._places = places
        self._shares = Shares(snapshot, rules)
        self._free = snapshot.free.copy()
        self._denied: set[tuple[int, int]] = set()  # (size, level) for which there is no place
        self._unfair: set[tuple[str, int]] = set()  # (tenant, size) that would borrow too much

    def all_fail(self, due: Sequence[Job]) -> bool:
        """Whether all that try now fail, which is then noted; else nothing is.

        Until one succeeds a try depends on the kind of the job alone, so that the many that try
        for hours are looked at one kind at a time.
        """
        before, now, patience_s = self._before, self._snapshot.now, self._rules.patience_s
        kinds: dict[tuple[str, int, int, bool], list[JobId]] = {}
        for job in due:
            spec = job.spec
            wait = before.get(spec.id)
            tries = 0 if wait is None else wait.tries
            kind = (spec.tenant, spec.asked, tries, now - job.since_at > patience_s)
            kinds.setdefault(kind, []).append(spec.id)
        failed: dict[JobId, Wait] = {}
        for kind, jobs in kinds.items():
            found = self._seek(*kind)
            if isinstance(found, _Room):
                return False
            failed |= dict.fromkeys(jobs, found)
        self.waits |= failed
        return True

    def run(self, due: Sequence[Job]) -> None:
        """Tenants by what they use of their quotas, the least first; in a tenant by rank."""
        queues: dict[str, deque[Job]] = {}
        for job in due:
            queues.setdefault(job.spec.tenant, deque()).append(job)
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
        until, jobs = inf, self._snapshot.jobs
        known: dict[tuple[str, int, int, bool], bool | None] = {}
        for identity, wait in waits.items():
            job = jobs[identity]
            tenant, size, patient = (
                job.spec.tenant,
                job.spec.asked,
                wait.is_patient(job.since_at, rules),
            )
            kind = (tenant, size, rules.level(wait.tries), patient)
            if kind not in known:
                found = self._seek(tenant, size, wait.tries, patient)
                known[kind] = found.fair_share if isinstance(found, Wait) else None
            same = known[kind] is wait.fair_share
            until = min(until, wait.changes_at(job.since_at, rules) if same else wait.next_try_at)
        return until

    def _try(self, job: Job) -> None:
        wait = self._before.get(job.id)
        patient = self._snapshot.now - job.since_at > self._rules.patience_s
        tries = 0 if wait is None else wait.tries
        found = self._seek(job.spec.tenant, job.spec.asked, tries, patient)
        if isinstance(found, Wait):
            self.waits[job.id] = found
            return
        if found.victims:
            self._free, self._shares.used = found.free, found.used
            self._denied.clear()
            self.changes |= {victim.id: None for victim in found.victims}
        self._free.take(found.devices)
        self._shares.start(job)
        self._unfair.clear()
        self.changes[job.id] = Allocation(found.devices)

    def _seek(self, tenant: str, size: int, tries: int, patient: bool) -> "_Room | Wait":
        """Where a job could run that tried so often, or how it waits on. It changes nothing."""
        rules, shares = self._rules, self._shares
        entitled = shares.within(tenant, size)
        if not entitled and not self._may_borrow(tenant, size):
            return Wait(rules.next_try_at(self._snapshot.now), tries, fair_share=True)
        level = rules.level(tries)
        devices = self._find(size, level)
        if devices is not None:
            return _Room(devices, (), self._free, shares.used)
        room = self._take_back(size, level) if entitled and patient and self._is_full() else None
        again_at = rules.next_try_at(self._snapshot.now)
        return room or Wait(again_at, tries + 1, fair_share=False)

    def _may_borrow(self, tenant: str, size: int) -> bool:
        """Whether it may hold and find so many more, and no tenant within its quota waits."""
        if (tenant, size) in self._unfair:
            return False
        shares = self._shares
        if not shares.allowed(tenant, size) or size > self._free.total or shares.wanted(tenant):
            self._unfair.add((tenant, size))
            return False
        return True

    def _find(self, size: int, level: int) -> tuple[Device, ...] | None:
        if (size, level) in self._denied:
            return None
        devices = self._places.find(self._snapshot.cluster, self._free, size, level)
        if devices is None:
            self._denied.add((size, level))
        return devices

    def _is_full(self) -> bool:
        devices = self._snapshot.cluster.device_count
        return devices - self._free.total >= self._rules.full * devices

    def _take_back(self, size: int, level: int) -> "_Room | None":
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
                return _Room(devices, victims, free, used)
        return None


def _due(snapshot: Snapshot, before: Mapping[JobId, Wait]) -> tuple[list[Job], dict[JobId, Wait]]:
    """The jobs that try now, by rank, and what is known of the others that wait."""
    now, jobs = snapshot.now, snapshot.jobs
    due: list[Job] = []
    waits: dict[JobId, Wait] = {}
    for _, _, identity in snapshot.ranking.queue:
        wait = before.get(identity)
        if wait is None or wait[0] <= now:
            due.append(jobs[identity])
        else:
            waits[identity] = wait
    return due, waits


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
