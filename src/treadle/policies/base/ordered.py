"""Policies that are an order: take jobs one after another and run those that fit.

Four choices make a policy: by what to rank, whether a job that does not fit blocks those behind it
(strict), whether a waiting job may take devices from running jobs behind it (preemptive), and how
often to look again while a job waits.

A preemptive policy must give the answer of "sort everything, fill from the front, skip what does
not fit" without sorting or filling: it walks the queue and, for a waiting job that does not fit,
evicts running jobs from the back of the order until it does. Those that turn out not to be in the
way stay where they are; those that must be preempted move if there is room elsewhere; and if
evicting all jobs behind would not be enough, none is evicted.
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import chain
from math import inf

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import Policy
from treadle.core.ranking import Rank, Ranking
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.core.why import Place
from treadle.policies.base.placement import Fit, Placement

Order = Callable[[Job, float], Rank]
Pick = Callable[[int], tuple[Device, ...] | None]  # devices for a job of that size, now taken
Filled = dict[JobId, Allocation]


class Ordered(Policy):
    """Run jobs in an order, each at the size it asked for."""

    def __init__(
        self,
        order: Order,
        placement: Placement,
        *,
        strict: bool = False,
        preemptive: bool = False,
        repack: bool = False,
        quantum_s: float = inf,
    ) -> None:
        self._order = order
        self._placement = placement
        self.place: Place = placement.place
        self._preemptive = preemptive
        self._repack = repack
        self._quantum_s = quantum_s
        # Whether `fill` is the whole decision where a job that waits alone fits; and always, so
        # that the ranks of running jobs do not matter.
        self.fills_one = not repack and quantum_s == inf
        self.only_fills = self.fills_one and not preemptive
        self._fit = Fit(placement)
        self.in_order = strict

    def rank(self, job: Job, now: float) -> Rank:
        return self._order(job, now)

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        return self._fit.never(spec.asked, cluster)

    def decide(self, snapshot: Snapshot) -> Schedule:
        if not snapshot.ranking.queue:
            return KEEP
        if self._repack:
            return Schedule.whole(snapshot, self._afresh(snapshot))
        changes: Mapping[JobId, Allocation | None] = {}
        if self._preemptive:
            changes = self._only_one(snapshot) or _Walk(snapshot, self._placement).changes()
        elif snapshot.free.total:
            pick = _Picking(snapshot.free, self._placement).pick
            changes = self.fill(snapshot.ranking, snapshot.jobs, pick)
        return Schedule(changes, snapshot.now + self._quantum_s)

    def _afresh(self, snapshot: Snapshot) -> dict[JobId, Allocation]:
        """Empty the cluster and fill it again in order, as some published simulators do."""
        ranking, jobs, now = snapshot.ranking, snapshot.jobs, snapshot.now
        order: list[tuple[float, int, int, JobId]] = []
        for behind, (value, slope, identity) in enumerate(ranking.from_the_back(now)):
            order.append((value, _RUNS_AND_FALLS if slope < 0 else _RUNS, -behind, identity))
        for place, (value, _, identity) in enumerate(ranking.queue):
            fresh = jobs[identity].submitted_at == now
            order.append((value, _ARRIVED if fresh else _WAITS, place, identity))
        free = snapshot.emptied()
        allocations: dict[JobId, Allocation] = {}
        for _, _, _, identity in sorted(order):
            devices = self._placement.place(free, jobs[identity].spec.asked)
            if devices is not None:
                free.take(devices)
                allocations[identity] = Allocation(devices)
        return allocations

    def _only_one(self, snapshot: Snapshot) -> dict[JobId, Allocation | None]:
        """Start the only job that waits, if there is room: often there is no more to decide."""
        queue = snapshot.ranking.queue
        if len(queue) > 1 or not snapshot.free.total:
            return {}
        ((_, _, identity),) = queue
        devices = self._placement.place(snapshot.free, snapshot.jobs[identity].spec.asked)
        return {} if devices is None else {identity: Allocation(devices)}

    def fill(self, ranking: Ranking, jobs: Mapping[JobId, Job], pick: Pick) -> Filled:
        """Start what fits on free devices, in order; strict: up to the first that does not."""
        started: dict[JobId, Allocation] = {}
        if self.in_order or len(ranking.queue) == 1:
            for _, _, identity in ranking.queue:
                devices = pick(jobs[identity].spec.asked)
                if devices is None:
                    break
                started[identity] = Allocation(devices)
            return started
        waiting = ranking.waiting()
        for (_, _, identity), size in waiting:
            devices = pick(size)
            if devices is None:
                waiting.give_up(size)
            else:
                started[identity] = Allocation(devices)
        return started


class _Picking:
    """Devices for one job after another, out of those that are free."""

    def __init__(self, free: FreeDevices, placement: Placement) -> None:
        self._all = self._free = free
        self._place = placement.place
        self._last: tuple[Device, ...] | None = None  # not yet taken: it is often the only one

    def pick(self, size: int) -> tuple[Device, ...] | None:
        if self._last is not None:
            if self._free is self._all:
                self._free = self._all.copy()
            self._free.take(self._last)
        self._last = self._place(self._free, size)
        return self._last


# A running job in the walk: (value, tie, -how many were behind it, job, its devices). Sorted,
# these stand in the policy's order, and a waiting job's (value, tie) falls into place among them:
# equal values stand as they stood a moment ago (core/ranking.py), so a job whose value falls comes
# after one that waits, any other before it, and a job that has just arrived comes last.
_Entry = tuple[float, int, int, JobId, tuple[Device, ...]]
_Bound = tuple[float, int] | _Entry
_RUNS, _WAITS, _RUNS_AND_FALLS, _ARRIVED = range(4)


class _Walk:
    """One preemptive decision: the queue from the front, the running jobs from the back."""

    def __init__(self, snapshot: Snapshot, placement: Placement) -> None:
        self._jobs = snapshot.jobs
        self._now = snapshot.now
        self._waiting = snapshot.ranking.waiting()
        self._placement = placement
        self._place = placement.place
        self._free: FreeDevices = snapshot.free.copy()
        self._back = snapshot.ranking.from_the_back(snapshot.now)
        self._pulled = 0  # how many came out of _back
        self._seen: list[_Entry] = []  # pulled and not evicted, the last first
        self._evicted: list[_Entry] = []  # a heap; they are tried again when their turn comes
        self._stopped: list[_Entry] = []  # all that were evicted, whatever became of them
        self._changes: dict[JobId, Allocation | None] = {}

    def changes(self) -> dict[JobId, Allocation | None]:
        jobs, now = self._jobs, self._now
        for (value, _, identity), size in self._waiting:
            bound = (value, _ARRIVED if jobs[identity].submitted_at == now else _WAITS)
            while self._evicted and self._evicted[0] < bound:
                self._try_again(heappop(self._evicted))
            # Trying again may have shown that this size cannot be had either.
            devices = self._find(size, bound) if size < self._waiting.limit else None
            if devices is not None:
                self._changes[identity] = Allocation(devices)
        while self._evicted:
            self._try_again(heappop(self._evicted))
        if len(self._stopped) > 1:
            self._stop_in_order()
        return self._changes

    def _stop_in_order(self) -> None:
        """Let jobs that stop come back to the queue in the order in which they ran."""
        for _, _, _, identity, _ in sorted(self._stopped):
            if self._changes.get(identity, self) is None:
                self._changes[identity] = self._changes.pop(identity)

    def _try_again(self, entry: _Entry) -> None:
        """An evicted job's own turn: elsewhere, or in place of others behind it."""
        _, _, _, identity, own = entry
        if len(own) < self._waiting.limit:
            devices = self._find(len(own), entry)
            if devices is not None:
                self._changes[identity] = Allocation(devices)

    def _find(self, size: int, bound: _Bound) -> tuple[Device, ...] | None:
        """Take so many devices: free ones, or those of running jobs behind the bound."""
        devices = self._place(self._free, size)
        if devices is None:
            devices = self._make_room(size, bound)
        if devices is None:
            self._waiting.give_up(size)
        else:
            self._free.take(devices)
        return devices

    def _make_room(self, size: int, bound: _Bound) -> tuple[Device, ...] | None:
        """Evict as few jobs as let the size fit, or none. Devices are freed where that may help."""
        free = self._free
        behind = self._from_the_back()
        enough = _enough(behind, size - free.total, bound)
        if enough is None:
            return None
        grain = self._placement.grain(size, free)
        room: dict[str, int] = {}  # free devices of a node if all jobs so far go
        passed: list[_Entry] = []  # behind, and not given free: where they are cannot help yet
        given: list[_Entry] = []
        for entry in chain(enough, behind):
            if entry < bound:
                break
            passed.append(entry)
            ripe = False
            for node, _ in entry[4]:
                count = room[node] + 1 if node in room else free.count_on(node) + 1
                room[node] = count
                ripe = ripe or count >= grain
            if not ripe or len(passed) + len(given) < len(enough):
                continue
            ready = [e for e in passed if any(room[node] >= grain for node, _ in e[4])]
            for other in ready:
                free.give(other[4])
            given += ready
            passed = [e for e in passed if e not in ready]
            found = self._place(free, size)
            if found is not None:
                return self._spare(size, given, found)
        for entry in given:
            free.take(entry[4])
        return None

    def _from_the_back(self) -> Iterator[_Entry]:
        """Running jobs that were not evicted, the last first."""
        yield from self._seen
        for value, slope, identity in self._back:
            allocation = self._jobs[identity].allocation
            assert allocation is not None, "a job in the lines holds devices"
            tie = _RUNS_AND_FALLS if slope < 0 else _RUNS
            entry = (value, tie, -self._pulled, identity, allocation.devices)
            self._pulled += 1
            self._seen.append(entry)
            yield entry

    def _spare(
        self, size: int, given: list[_Entry], devices: tuple[Device, ...]
    ) -> tuple[Device, ...]:
        """Keep jobs whose devices turn out not to be needed, the best ranked first."""
        free = self._free
        gone: dict[JobId, None] = {}
        for _, _, _, identity, own in sorted(given):
            free.take(own)
            if set(devices).isdisjoint(own):
                continue
            without = self._place(free, size)
            if without is None:
                free.give(own)
                gone[identity] = None
            else:
                devices = without
        for entry in self._seen:
            if entry[3] in gone:
                heappush(self._evicted, entry)
                self._stopped.append(entry)
        self._seen = [entry for entry in self._seen if entry[3] not in gone]
        self._changes.update(gone)
        return devices


def _enough(behind: Iterator[_Entry], devices: int, bound: _Bound) -> list[_Entry] | None:
    """The last jobs, at least one, that have so many devices together and are behind the bound."""
    last: list[_Entry] = []
    for entry in behind:
        if entry < bound:
            return None
        last.append(entry)
        devices -= len(entry[4])
        if devices <= 0:
            return last
    return None
