"""Policies that are an order: take jobs one after another and run those that fit.

Four choices make a policy: by what to rank, whether a job that does not fit blocks those behind it
(strict), whether a waiting job may take devices from running jobs behind it (preemptive), and how
often to look again while somebody waits.

A preemptive policy must give the answer of "sort everything, fill from the front, skip what does
not fit" without sorting or filling: it walks the queue and, for a waiting job that does not fit,
evicts running jobs from the back of the order until it does. Those that turn out not to be in the
way stay where they are; those that have to give way move if there is room elsewhere; and if
evicting everybody behind would not be enough, nobody is evicted.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import inf

from weft.core.allocation import Allocation
from weft.core.cluster import Cluster, Device
from weft.core.free import FreeDevices
from weft.core.job import Job, JobId, JobSpec
from weft.core.ports import Policy
from weft.core.ranking import Rank
from weft.core.snapshot import KEEP, Reason, Schedule, Snapshot
from weft.policies.explain import why_waiting
from weft.policies.placement import Placement, never_fits

Order = Callable[[Job, float], Rank]


class Ordered(Policy):
    """Run jobs in an order, each at the size it asked for."""

    def __init__(
        self,
        order: Order,
        placement: Placement,
        *,
        strict: bool = False,
        preemptive: bool = False,
        quantum_s: float = inf,
    ) -> None:
        self._order = order
        self._placement = placement
        self._preemptive = preemptive
        self._quantum_s = quantum_s
        # A cache and no state: the answer for each size on the cluster asked about last.
        self._never: tuple[Cluster | None, dict[int, str | None]] = (None, {})
        self.in_order = strict

    def rank(self, job: Job, now: float) -> Rank:
        return self._order(job, now)

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        if self._never[0] is not cluster:
            self._never = (cluster, {})
        known, size = self._never[1], spec.asked
        if size not in known:
            known[size] = never_fits(self._placement, size, cluster)
        return known[size]

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        return why_waiting(snapshot, job, self._placement, in_order=self.in_order)

    def decide(self, snapshot: Snapshot) -> Schedule:
        if not snapshot.ranking.queue:
            return KEEP
        if self._preemptive:
            changes = _Walk(snapshot, self._placement).changes()
        elif snapshot.free.total:
            changes = self._fill(snapshot)
        else:
            changes = {}
        return Schedule(changes, snapshot.now + self._quantum_s)

    def _fill(self, snapshot: Snapshot) -> dict[JobId, Allocation | None]:
        """Start what fits on free devices, in order."""
        place, jobs = self._placement.place, snapshot.jobs
        free = snapshot.free
        changes: dict[JobId, Allocation | None] = {}
        too_large = inf
        for _, _, identity in snapshot.ranking.queue:
            size = jobs[identity].spec.asked
            devices = place(free, size) if size < too_large else None
            if devices is None:
                if self.in_order:
                    break
                too_large = min(too_large, size)
                continue
            if not changes:
                free = free.copy()
            free.take(devices)
            changes[identity] = Allocation(devices)
            if not free.total:
                break
        return changes


# A running job in the walk: (value, -how many were behind it, slope, job). Sorted, these stand in
# the policy's order.
_Entry = tuple[float, int, float, JobId]


class _Walk:
    """One preemptive decision: the queue from the front, the running jobs from the back."""

    def __init__(self, snapshot: Snapshot, placement: Placement) -> None:
        self._jobs = snapshot.jobs
        self._now = snapshot.now
        self._queue = snapshot.ranking.queue
        self._placement = placement
        self._place = placement.place
        self._free: FreeDevices = snapshot.free.copy()
        self._behind = snapshot.ranking.from_the_back(snapshot.now)
        self._pulled = 0  # how many came out of _behind
        self._seen: list[_Entry] = []  # pulled and not evicted, the last first
        self._evicted: list[_Entry] = []  # a heap; they are tried again when their turn comes
        self._too_large = inf  # no job of this size or above can be had any more
        self._changes: dict[JobId, Allocation | None] = {}

    def changes(self) -> dict[JobId, Allocation | None]:
        for value, _, identity in self._queue:
            job = self._jobs[identity]
            fresh = job.submitted_at == self._now
            while self._evicted and not _is_behind(self._evicted[0], value, fresh=fresh):
                self._try_again(heappop(self._evicted))
            if self._too_large == 1:
                break
            size = job.spec.asked
            if size < self._too_large:
                devices = self._find(size, self._behind_of(value, fresh=fresh))
                if devices is not None:
                    self._changes[identity] = Allocation(devices)
        while self._evicted:
            self._try_again(heappop(self._evicted))
        return self._changes

    def _try_again(self, entry: _Entry) -> None:
        """An evicted job's own turn: where it was, or elsewhere, or in place of others behind."""
        identity = entry[3]
        own = self._held(identity)
        if self._free.holds(own):
            self._free.take(own)
            del self._changes[identity]
        elif len(own) < self._too_large:
            behind = [other[3] for other in self._seen if other[1] > entry[1]]
            devices = self._find(len(own), iter(behind))
            if devices is not None:
                self._changes[identity] = Allocation(devices)

    def _find(self, size: int, behind: Iterator[JobId]) -> tuple[Device, ...] | None:
        """Take so many devices: free ones, or those of running jobs that are behind."""
        devices = self._place(self._free, size)
        if devices is None:
            devices = self._make_room(size, behind)
        if devices is None:
            self._too_large = size
        else:
            self._free.take(devices)
        return devices

    def _behind_of(self, value: float, *, fresh: bool) -> Iterator[JobId]:
        """Running jobs behind a waiting one of that value, the last first."""
        index = 0
        while True:
            if index == len(self._seen):
                pulled = next(self._behind, None)
                if pulled is None:
                    return
                self._seen.append((pulled[0], -self._pulled, pulled[1], pulled[2]))
                self._pulled += 1
            entry = self._seen[index]
            if not _is_behind(entry, value, fresh=fresh):
                return
            yield entry[3]
            index += 1

    def _make_room(self, size: int, behind: Iterator[JobId]) -> tuple[Device, ...] | None:
        """Evict as few of them as let the size fit, or nobody."""
        free, held = self._free, self._held
        missing = size - free.total
        grain = self._placement.grain(size, free.largest)
        room: dict[str, int] = {}  # free devices of a node if the victims so far go
        waiting: list[JobId] = []  # not given free yet: where they are cannot help so far
        victims: list[JobId] = []
        for identity in behind:
            waiting.append(identity)
            devices = held(identity)
            missing -= len(devices)
            ripe = False
            for node, _ in devices:
                room[node] = count = room[node] + 1 if node in room else free.count_on(node) + 1
                ripe = ripe or count >= grain
            if missing > 0 or not ripe:
                continue
            for victim in waiting:
                if any(room[node] >= grain for node, _ in held(victim)):
                    free.give(held(victim))
                    victims.append(victim)
            waiting = [victim for victim in waiting if victim not in victims]
            found = self._place(free, size)
            if found is not None:
                return self._spare(size, victims, found)
        for victim in victims:
            free.take(held(victim))
        return None

    def _spare(
        self, size: int, victims: list[JobId], devices: tuple[Device, ...]
    ) -> tuple[Device, ...]:
        """Let victims stay that are not in the way after all, the best ranked first."""
        gone: dict[JobId, None] = {}
        order = {entry[3]: entry for entry in self._seen}
        for identity in sorted(victims, key=order.__getitem__):
            held = self._held(identity)
            self._free.take(held)
            if set(devices).isdisjoint(held):
                continue
            without = self._place(self._free, size)
            if without is None:
                self._free.give(held)
                gone[identity] = None
            else:
                devices = without
        for entry in self._seen:
            if entry[3] in gone:
                heappush(self._evicted, entry)
        self._seen = [entry for entry in self._seen if entry[3] not in gone]
        self._changes.update(gone)
        return devices

    def _held(self, identity: JobId) -> tuple[Device, ...]:
        allocation = self._jobs[identity].allocation
        assert allocation is not None, "a job in the lines holds devices"
        return allocation.devices


def _is_behind(entry: _Entry, value: float, *, fresh: bool) -> bool:
    """Whether a job that runs ranks behind one that waits, and did not just arrive (fresh).

    Equal values stand as they stood a moment ago: one that falls has come from behind.
    """
    running, _, slope, _ = entry
    return running > value or (running == value and slope < 0 and not fresh)
