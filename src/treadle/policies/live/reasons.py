"""Why a job waits, or has what it has, under the live decision: what the last one left behind.

No policy is asked to decide. A waiting job is tried on what is free, and once more without each
thing that may bind it: what lets it start is the reason. If nothing alone does, too few devices are
free, or the policy starts others first.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from math import inf, isfinite
from typing import TYPE_CHECKING

from treadle.core.device_types import devices_on, too_small
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel
from treadle.core.reasons import Number, Reason
from treadle.core.snapshot import Snapshot
from treadle.core.why import holders_of, holding
from treadle.policies.base.suited import usable_by, words_of
from treadle.policies.live.costs import Part
from treadle.policies.live.eligibility import LevelOf, LineOf, movable
from treadle.policies.live.patience import counted, due_at, overtakes_most, reserved_from
from treadle.policies.live.plan import Plan
from treadle.policies.live.quotas import LENT, Entitlements, by_priority
from treadle.policies.live.room import Room, asks_host, avoided_until

if TYPE_CHECKING:
    from treadle.policies.live.decide import Decision, Live

_NODES_MAX = 16  # of which a reason says what they have left
_BY_OTHERS = ("devices", "fragmentation", "type", "quota", "rank")  # what a preempted job waits for


def reason(live: "Live", last: "Decision", snapshot: Snapshot, identity: JobId) -> Reason:
    """The reason for where a job stands. last: the decision before."""
    job = snapshot.jobs[identity]
    if job.phase is not Phase.WAITING:
        return _holding(last, snapshot, job)
    found = _Waiting(live, last, snapshot, job).reason()
    other = last.for_whom.get(identity, "")
    if other in snapshot.jobs and found.code in _BY_OTHERS:
        return Reason("preempted", {"for_job": other, "since_s": snapshot.now - job.since_at})
    return found


def patience_of(belief: PerformanceModel, last: "Decision", snapshot: Snapshot, job: Job) -> Reason:
    """When devices will be reserved for a waiting job."""
    in_s = due_at(job, belief, snapshot.now) - snapshot.now
    overtaken = last.patience.overtaken
    most = overtakes_most(job, snapshot) if job.id in overtaken else 0
    numbers = {"overtakes": counted(job, overtaken), "most": most}
    return _timed("patience", numbers, in_s)


# -- jobs that hold devices -----------------------------------------------------------------------


def _holding(last: "Decision", snapshot: Snapshot, job: Job) -> Reason:
    plain, spec = holding(snapshot, job), job.spec
    if plain.code != "running":
        return plain
    other = last.for_whom.get(job.id, "")
    if other in snapshot.jobs and job.size < spec.asked:
        return Reason("shrunk", {"size": job.size, "for_job": other})
    part = _refused(last, snapshot, job)
    larger = [size for size in spec.sizes if job.size < size <= job.size + snapshot.free.total]
    if part is None or not larger or _begun(part, snapshot):
        return plain
    sizes = {"size": job.size, "next": larger[0], "free": snapshot.free.total}
    return _timed("could-grow", {**sizes, **_weighed(part)}, part.pays_at - snapshot.now)


def _refused(last: "Decision", snapshot: Snapshot, job: Job) -> Part | None:
    """The change with this job that did not pay."""
    for part in last.refused:
        if job.id in part.jobs and all(name in snapshot.jobs for name in part.jobs):
            return part
    return None


def _begun(part: Part, snapshot: Snapshot) -> list[JobId]:
    return [name for name in part.jobs if snapshot.jobs[name].allocation is None]


def _weighed(part: Part) -> dict[str, Number]:
    return {"cost_s": part.cost_s, "gain_s": max(0.0, part.gain_s)}


def _timed(code: str, numbers: Mapping[str, Number], in_s: float) -> Reason:
    """A reason with the moment at which it ends, if one is known."""
    if not isfinite(in_s):
        return Reason(code, numbers)
    return Reason(code, {**numbers, "in_s": max(0.0, in_s)})


# -- jobs that wait -------------------------------------------------------------------------------


class _Waiting:
    """What binds one waiting job."""

    def __init__(self, live: "Live", last: "Decision", snapshot: Snapshot, job: Job) -> None:
        self._live, self._last, self._snapshot, self._job = live, last, snapshot, job
        self._now = snapshot.now
        self._size = job.least(resizes=live.inner.resizes)
        self._room = Room(snapshot, live.placement)
        self._plan = Plan(snapshot, self._room)

    def reason(self) -> Reason:
        if found := self._limit() or self._hidden() or self._cost():
            return found
        if self._fits:
            found = self._reserved() or self._not_lent() or self._reservation() or self._priority()
        else:
            found = self._missing() or self._reservation() or self._quota() or self._narrow()
        return found or self._policy()

    @cached_property
    def _fits(self) -> bool:
        """Whether there is room for it."""
        return self._room.place(self._job, self._size) is not None

    @cached_property
    def _owed(self) -> Entitlements | None:
        return self._live.entitlements(self._snapshot)

    @cached_property
    def _level_of(self) -> LevelOf:
        return by_priority if self._owed is None else self._owed.level_of

    @cached_property
    def _line_of(self) -> LineOf:
        live, snapshot = self._live, self._snapshot._replace(memory=self._last)
        return live.line_of(snapshot, live.used(snapshot), self._level_of)

    def _limit(self) -> Reason | None:
        """That its user or tenant has as much as they may."""
        if not self._live.limits:
            return None
        return self._live.limits.on(self._snapshot).binding(self._job, self._job.spec.sizes[0])

    # What the decision left behind.

    def _hidden(self) -> Reason | None:
        """Why the policy did not even see it."""
        found = self._last.hidden.get(self._job.id)
        if found is None:
            return None
        if found.code == "backoff" and self._job.ready_at > self._now:
            numbers = {"failures": self._job.failures}
            return _timed("backoff", numbers, self._job.ready_at - self._now)
        if found.code == "host" and not self._fits:
            return self._host()
        first = self._snapshot.jobs.get(str(found.numbers.get("first_job", "")))
        if first is not None and first.allocation is None:
            counts = {"asked": first.spec.asked, "free": self._snapshot.free.total}
            return Reason("order", {"first_job": first.id, **counts})
        return None

    def _cost(self) -> Reason | None:
        """That the policy would start it, if that paid."""
        part = _refused(self._last, self._snapshot, self._job)
        if part is None:
            return None
        running = tuple(name for name in part.jobs if self._snapshot.jobs[name].allocation)
        return _timed("cost", {"jobs": running, **_weighed(part)}, part.pays_at - self._now)

    def _reservation(self) -> Reason | None:
        """That devices are reserved for it, and not all are free."""
        own = next((e for e in self._last.patience.reserved if e.job == self._job.id), None)
        if own is None or not own.devices:
            return None
        snapshot = self._snapshot
        free = sum(snapshot.free.holds((device,)) for device in own.devices)
        numbers = {"devices": len(own.devices), "free": free}
        holders = holders_of(snapshot.tenants, own.devices)
        return _timed("reservation", {**numbers, "holders": holders}, own.by_at - self._now)

    # What would let it start if it were not.

    def _missing(self) -> Reason | None:
        """What alone keeps it from devices that are free."""
        for job, named in self._freed():
            if self._room.place(job, self._size) is not None:
                return named()
        return None

    def _freed(self) -> Iterator[tuple[Job, Callable[[], Reason]]]:
        """The job without each thing that it asks of nodes."""
        job, spec = self._job, self._job.spec
        if asks_host(spec):
            yield job._replace(spec=replace(spec, host_memory_gib=0.0, host_cores=0.0)), self._host
        if job.avoid:
            yield job._replace(avoid=()), self._avoids
        if job.only_on:
            yield job._replace(only_on=(), spec=replace(spec, nodes=())), self._bound
        if self._words() or spec.device_memory_gib:
            bare = replace(spec, device_types=("any",), device_memory_gib=0.0)
            yield job._replace(spec=bare), self._type

    def _reserved(self) -> Reason | None:
        """That what is free and suits it is reserved for another."""
        entries = self._last.patience.reserved
        head = next((entry for entry in entries if entry.devices), None)
        if head is None or head.job not in self._snapshot.jobs:
            return None
        belief, plan = self._live.belief, self._plan
        kept = reserved_from(self._job, entries, self._level_of, belief, plan)
        without = self._room.copy()
        without.not_lent = lambda _: kept
        if not kept or without.place(self._job, self._size) is not None:
            return None
        numbers: dict[str, Number] = {"for_job": head.job, "devices": len(kept)}
        return _timed("reserved", numbers, head.by_at - self._now)

    def _not_lent(self) -> Reason | None:
        """That what is free belongs to tenants' quotas, and it could not give it back."""
        job, owed = self._job, self._owed
        if owed is None or owed.may_have(self._plan, job, self._size):
            return None
        free = self._snapshot.free.total
        return Reason("not-lent", {"tenant": job.spec.tenant, "asked": self._size, "free": free})

    def _quota(self) -> Reason | None:
        """That its tenant's quota is used up, so that no job has to make way for it."""
        owed, job, tenant = self._owed, self._job, self._job.spec.tenant
        if owed is None or not job.spec.guaranteed or owed.tiers.get(job.id, LENT) != LENT:
            return None
        lent = (
            other
            for other in self._snapshot.holding()
            if owed.tiers.get(other.id) == LENT and movable(other)
        )
        if next(lent, None) is None:
            return None
        quota, used = (self._live.given or {}).get(tenant, 0.0), owed.used(self._plan)
        counts = {"quota": quota, "used": used.get(tenant, 0), "asked": self._size}
        return Reason("quota", {"tenant": tenant, **counts})

    def _narrow(self) -> Reason | None:
        """That too few are free of the devices that it may use, or not together."""
        job, cluster = self._job, self._snapshot.cluster
        usable = usable_by(job.spec, cluster, job.only_on)
        counts = [self._snapshot.free.count_on(name) for name in usable]
        if sum(counts) >= self._size:
            numbers = {"asked": self._size, "free": sum(counts), "most": max(counts)}
            return Reason("fragmentation", numbers)
        if usable == cluster.names:
            return None
        return self._bound() if job.only_on else self._type()

    def _priority(self) -> Reason | None:
        """That jobs of a higher line wait, for which what is free may be needed."""
        mine, hidden = self._line_of(self._job), self._last.hidden
        waiting = [job for job in self._snapshot.waiting() if job.id not in hidden]
        higher = [job for job in waiting if self._line_of(job) < mine]
        if not higher:
            return None
        if all(self._line_of(job)[:2] == mine[:2] for job in higher):
            others = tuple(dict.fromkeys(job.spec.owner for job in higher))
            return Reason("share", {"user": self._job.spec.owner, "others": others[:_NODES_MAX]})
        most = max(job.spec.priority for job in higher)
        return Reason("priority", {"count": len(higher), "priority": most})

    def _policy(self) -> Reason:
        """The policy's own reason, about the jobs that it sees."""
        line, notes = self._line_of(self._job), self._last.policy
        note = next((each for key, each in notes.items() if key[0] == line), None)
        hidden = [name for name in self._last.hidden if name in self._snapshot.ranking]
        seen = self._snapshot.hiding(hidden) if hidden else self._snapshot
        return self._live.inner.reason(seen._replace(memory=note), self._job.id)

    # In numbers.

    def _host(self) -> Reason:
        """The host memory and cores that it asks for, and what its nodes have left."""
        spec, snapshot, cluster = self._job.spec, self._snapshot, self._snapshot.cluster
        usable = usable_by(spec, cluster, self._job.only_on)
        rows: list[tuple[Number, ...]] = []
        for node in cluster.nodes:
            large = spec.host_memory_gib <= (node.memory_gib or inf)
            if node.name in usable and large and spec.host_cores <= (node.cores or inf):
                memory, cores = self._room.left_on(node.name)
                left = (memory if node.memory_gib else 0.0, cores if node.cores else 0.0)
                has = (node.memory_gib, float(node.cores))
                free = (snapshot.free.count_on(node.name), cluster.counts[node.name])
                rows.append((node.name, *left, *has, *free))
        asks = {"memory_gib": spec.host_memory_gib, "cores": spec.host_cores}
        return Reason("host", {**asks, "nodes": tuple(rows[:_NODES_MAX])})

    def _avoids(self) -> Reason:
        in_s = avoided_until(self._job) - self._now
        return _timed("avoids", {"nodes": self._job.avoid}, in_s)

    def _bound(self) -> Reason:
        nodes = self._job.only_on
        free = sum(self._snapshot.free.count_on(name) for name in nodes)
        by = self._job.only_because
        return Reason("bound", {"nodes": nodes, "asked": self._size, "free": free, "by": by})

    def _type(self) -> Reason:
        spec, cluster, free = self._job.spec, self._snapshot.cluster, self._snapshot.free
        usable = usable_by(spec, cluster)
        numbers: dict[str, Number] = {"words": self._words(), "asked": self._size}
        numbers["free"] = sum(free.count_on(name) for name in usable)
        numbers["total"] = devices_on(usable, cluster)
        if too_small(spec.device_memory_gib, cluster):
            numbers["memory_gib"] = spec.device_memory_gib
        return Reason("type", numbers)

    def _words(self) -> tuple[str, ...]:
        return words_of(self._job.spec, self._snapshot.cluster)
