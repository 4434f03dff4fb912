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


class _Walk:
    """One preemptive decision: the queue from the front, the running jobs from the back."""

    def __init__(self, snapshot: Snapshot, placement: Placement) -> None:
        self._jobs = snapshot.jobs
        self._now = snapshot.now
        self._queue = snapshot.ranking.queue
        self._place = placement.place
        self._free: FreeDevices = snapshot.free.copy()
        self._behind = snapshot.ranking.from_the_back(snapshot.now)
        self._seen: list[tuple[float, float, JobId]] = []  # pulled from _behind and still running
        self._evicted: dict[JobId, float] = {}  # to their value; they look for another place
        self._changes: dict[JobId, Allocation | None] = {}

    def changes(self) -> dict[JobId, Allocation | None]:
        too_large = inf
        for value, _, identity in self._queue:
            job = self._jobs[identity]
            size = job.spec.asked
            if self._evicted:
                self._move_evicted(value)
            if size >= too_large:
                continue
            devices = self._place(self._free, size)
            if devices is None:
                behind = list(self._behind_of(value, fresh=job.submitted_at == self._now))
                if not behind and not self._free.total:
                    break
                devices = self._make_room(size, behind)
            if devices is None:
                too_large = size
                continue
            self._free.take(devices)
            self._changes[identity] = Allocation(devices)
        self._move_evicted(inf)
        return self._changes

    def _behind_of(self, value: float, *, fresh: bool) -> Iterator[JobId]:
        """Running jobs behind that value, the last first."""
        for entry in self._seen:
            if _is_behind(entry, value, fresh=fresh):
                yield entry[2]
        while not self._seen or _is_behind(self._seen[-1], value, fresh=fresh):
            entry = next(self._behind, None)
            if entry is None:
                return
            self._seen.append(entry)
            if _is_behind(entry, value, fresh=fresh):
                yield entry[2]

    def _make_room(self, size: int, behind: list[JobId]) -> tuple[Device, ...] | None:
        """Evict as few of them as let the size fit, or nobody."""
        free, held = self._free, self._held
        if free.total + sum(len(held(identity)) for identity in behind) < size:
            return None
        victims: list[JobId] = []
        devices = None
        for identity in behind:
            free.give(held(identity))
            victims.append(identity)
            if free.total >= size:
                devices = self._place(free, size)
                if devices is not None:
                    break
        if devices is None:
            for identity in victims:
                free.take(held(identity))
            return None
        return self._spare(size, victims, devices)

    def _spare(
        self, size: int, victims: list[JobId], devices: tuple[Device, ...]
    ) -> tuple[Device, ...]:
        """Let victims stay that are not in the way after all, the best ranked first."""
        # The last one made the difference, so it is in the way for certain.
        gone = {victims[-1]}
        for identity in reversed(victims[:-1]):
            self._free.take(self._held(identity))
            without = self._place(self._free, size)
            if without is None:
                self._free.give(self._held(identity))
                gone.add(identity)
            else:
                devices = without
        for entry in [entry for entry in self._seen if entry[2] in gone]:
            self._seen.remove(entry)
            self._evicted[entry[2]] = entry[0]
            self._changes[entry[2]] = None
        return devices

    def _move_evicted(self, before: float) -> None:
        """Give evicted jobs that rank before that value another place, if there is one."""
        for identity, value in sorted(self._evicted.items(), key=lambda item: item[1]):
            if value >= before or not self._free.total:
                return
            job = self._jobs[identity]
            devices = self._place(self._free, job.spec.asked)
            if devices is not None:
                self._free.take(devices)
                self._changes[identity] = Allocation(devices)
                del self._evicted[identity]

    def _held(self, identity: JobId) -> tuple[Device, ...]:
        allocation = self._jobs[identity].allocation
        assert allocation is not None, "a job in the lines holds devices"
        return allocation.devices


def _is_behind(entry: tuple[float, float, JobId], value: float, *, fresh: bool) -> bool:
    """Whether a running job ranks behind a waiting one; see core/ranking.py on ties."""
    running, slope, _ = entry
    return running > value or (running == value and slope < 0 and not fresh)
