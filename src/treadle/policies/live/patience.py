"""One patience: how long any job can be passed over, and the devices that are reserved then.

A job has waited long enough once its waits add up to

    WAIT_S + LENGTHS x its length + AGAIN x the time that it has run.

A job that asks for several devices, or for host memory, and never ran, waits no longer than until
OVERTAKES later jobs for each device that it may use have started before it: what it needs comes
free in pieces, and small jobs take every piece.

Such jobs are served in order, one at a time, while those that run because of it have no more than
SHARE of all devices: where all jobs wait long, the policy's order still counts. The first starts as
soon as there is room. If there is none, the devices are reserved that are expected to be free
together first, and the moment is noted:

- until then only jobs start there that are expected to be gone, or can make way after WORTH_S;
- then jobs that can resume make way;
- if others are still there, the devices are chosen again. A job that outlived the first moment is
  expected to stay for as long as that is past, and nothing starts there in the last quarter.

A job that runs because of its patience is not stopped until it has run for so long that it would
have to wait on, unless a job of a higher level needs its devices. One that ran waits for AGAIN_S at
least.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from heapq import nsmallest
from math import inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.device_types import devices_on
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Snapshot
from treadle.policies.base.suited import usable_by
from treadle.policies.live.costs import left_s
from treadle.policies.live.eligibility import LevelOf
from treadle.policies.live.plan import Plan
from treadle.policies.live.room import asks_host
from treadle.policies.wrappers.views import Changes, taking_free

WAIT_S = 43_200.0
LENGTHS = 12.0
AGAIN = 4.0
AGAIN_S = 3_600.0
OVERTAKES = 2.0
SHARE = 0.75  # of the devices, at most, are given to jobs because of their patience
WORTH_S = 300.0  # a job is not started to be stopped again sooner
_UNLENT = 0.25  # of a moment that was set again: so long nothing starts there
_LEAST_S = 1.0
COUNTED_MAX = 64  # jobs of which overtakings are counted, those that came first
_MOMENT_S = 1e-3


class Reservation(NamedTuple):
    """Devices that are set aside for a job."""

    job: JobId
    by_at: float = inf  # when all of them are expected to be free
    devices: tuple[Device, ...] = ()
    due_at: float = inf  # the first such moment, if it was missed
    lent_until_at: float = inf  # nothing starts there after that


class Count(NamedTuple):
    """How often a job was overtaken."""

    times: int
    since_at: float  # since when it waits; a job that was on hold is counted from its release


class Patience(NamedTuple):
    """What one decision tells the next."""

    overtaken: Mapping[JobId, Count] = {}
    reserved: tuple[Reservation, ...] = ()  # in the order in which they are served
    turns: Mapping[JobId, float] = {}  # jobs that run because of it, and until when for certain


def due_at(job: Job, belief: PerformanceModel, now: float) -> float:
    """When a waiting job has waited long enough, even if no job overtook it."""
    left_s = _patience_s(job, belief, job.held_at(now)) - job.waited_s
    return job.since_at + max(left_s, AGAIN_S if job.starts else 0.0)


def _not_before(job: Job) -> float:
    """A moment before which a waiting job has surely not waited long enough."""
    return job.since_at + WAIT_S + AGAIN * job.held_s - job.waited_s


def turn_s(job: Job, belief: PerformanceModel, now: float) -> float:
    """For how long a job that starts because of its patience is not stopped."""
    over_s = job.waited_at(now) - _patience_s(job, belief, job.held_at(now))
    return max(over_s, AGAIN_S) / AGAIN


def _patience_s(job: Job, belief: PerformanceModel, held_s: float) -> float:
    length_s = job.spec.iterations / belief.alone(job.spec, job.spec.asked)
    return WAIT_S + LENGTHS * length_s + AGAIN * held_s


def overtakes_most(job: Job, snapshot: Snapshot) -> int:
    """How many later jobs may start before one that what it needs comes free for in pieces."""
    usable = usable_by(job.spec, snapshot.cluster, job.only_on)
    return max(1, int(OVERTAKES * devices_on(usable, snapshot.cluster)))


def counted(job: Job, before: Mapping[JobId, Count]) -> int:
    """How often a job was overtaken since it waits."""
    count = before.get(job.id)
    return count.times if count is not None and count.since_at == job.since_at else 0


def in_pieces(job: Job) -> bool:
    """Whether what it needs may come free without ever being free together."""
    return not job.starts and (job.spec.sizes[0] > 1 or asks_host(job.spec))


class Patient:
    """The waiting jobs of one decision whose patience is counted."""

    def __init__(self, snapshot: Snapshot, belief: PerformanceModel, before: Patience) -> None:
        self._snapshot, self._belief, self._before = snapshot, belief, before
        self._soon = snapshot.now + _MOMENT_S
        self._waiting = [
            job
            for job in snapshot.waiting()
            if DATA_PARALLEL in job.spec.plans and job.ready_at <= snapshot.now and not job.avoid
        ]
        pieces = [job for job in self._waiting if in_pieces(job)]
        self._pieces = nsmallest(COUNTED_MAX, pieces, key=lambda job: job.sequence)

    def entries(self) -> list[Reservation]:
        """Those whose patience is over: who had a reservation first, then as they came."""
        late = {job.sequence: job.id for at, job in self._dues if at <= self._soon}
        for job in self._pieces:
            times = counted(job, self._before.overtaken)
            if times and times >= overtakes_most(job, self._snapshot):
                late[job.sequence] = job.id
        names = {job.id for _, job in self._dues}
        found = {entry.job: entry for entry in self._before.reserved if entry.job in names}
        for _, name in sorted(late.items()):
            found.setdefault(name, Reservation(name))
        return list(found.values())

    def next_at(self) -> float:
        """When to look for the next job that has waited long enough."""
        return min((at for at, _ in self._dues if at > self._soon), default=inf)

    @cached_property
    def _dues(self) -> list[tuple[float, Job]]:
        """When each has waited long enough, or a moment before."""
        now, soon, belief = self._snapshot.now, self._soon, self._belief
        return [
            (at if (at := _not_before(job)) > soon else due_at(job, belief, now), job)
            for job in self._waiting
        ]

    def after(self, changes: Changes) -> dict[JobId, Count]:
        """How often jobs were overtaken once these changes are made."""
        snapshot, before = self._snapshot, self._before.overtaken
        begun = [snapshot.jobs[name] for name in taking_free(snapshot, changes)]
        first = [(job, new.nodes()) for job in begun if not job.starts and (new := changes[job.id])]
        found = {}
        for job in (*self._pieces, *self._out_of_sight()):
            if changes.get(job.id) is not None:
                continue
            usable = usable_by(job.spec, snapshot.cluster, job.only_on) if first else frozenset()
            more = sum(
                other.sequence > job.sequence
                and other.spec.priority <= job.spec.priority
                and not usable.isdisjoint(nodes)
                for other, nodes in first
            )
            found[job.id] = Count(counted(job, before) + more, job.since_at)
        return found

    def _out_of_sight(self) -> list[Job]:
        """Jobs that wait for nodes to come back, of which overtakings were counted."""
        rows = self._snapshot.jobs
        known = (rows[name] for name in self._before.overtaken if name in rows)
        waiting = (job for job in known if job.phase is Phase.WAITING and in_pieces(job))
        return [job for job in waiting if job.id not in self._snapshot.ranking]


class Reserving:
    """Serves the jobs whose patience is over, on the plan of one decision."""

    def __init__(
        self,
        plan: Plan,
        belief: PerformanceModel,
        fixed: Set[JobId],
        level_of: LevelOf,
        *,
        resizes: bool,
    ) -> None:
        """fixed: running jobs that stay. resizes: the policy does, so a job begins on its least."""
        self._plan, self._belief, self._fixed, self._level_of = plan, belief, fixed, level_of
        self._resizes = resizes
        self._now = plan.snapshot.now
        self.turns: dict[JobId, float] = {}

    def serve(
        self, entries: Iterable[Reservation], outranked: Set[JobId], turns: Mapping[JobId, float]
    ) -> list[Reservation]:
        """Start those for which there is room, and reserve devices for the first that is left.

        outranked: jobs that wait while a more urgent one could start: they neither start nor get a
        reservation now.
        turns: jobs that run because of their patience.
        """
        left: list[Reservation] = []
        rows, head = self._plan.snapshot.jobs, False
        self.turns = dict(turns)
        held = sum(rows[name].size for name in turns)
        most = SHARE * self._plan.snapshot.cluster.device_count
        for entry in entries:
            job = rows[entry.job]
            size = job.least(resizes=self._resizes)
            head = head or (held > 0 and held + size > most)
            if head or entry.job in outranked:
                left.append(Reservation(entry.job))
            elif self._starts(entry, job, size, left):
                self.turns[job.id] = self._now + turn_s(job, self._belief, self._now)
                held += size
            else:
                head = bool(left[-1].devices)
        return left

    def _starts(self, entry: Reservation, job: Job, size: int, left: list[Reservation]) -> bool:
        """Whether a job was given devices now; those that it waits for are added to `left`."""
        found, chosen = self._plan.room.place(job, size), None
        if found is None:
            chosen = self._with_devices(entry, job)
        if chosen is not None and self._now >= chosen.by_at:
            found = self._plan.make_room(job, size, self._victims(chosen, job))
        if found is not None:
            self._plan.give(job, Allocation(found))
            return True
        left.append(chosen or Reservation(entry.job))
        return False

    def _victims(self, entry: Reservation, job: Job) -> list[JobId]:
        """Those on the nodes of a reservation that are stopped when its moment has come."""
        nodes = {device.node for device in entry.devices}
        found = [
            other
            for other in self._plan.snapshot.holding()
            if not self._remains(other, job)
            and other.allocation is not None
            and not nodes.isdisjoint(other.allocation.nodes())
        ]
        return [each.id for each in sorted(found, key=self._level_of, reverse=True)]

    def _remains(self, other: Job, job: Job) -> bool:
        """Whether a running job is not stopped for one whose patience is over."""
        return other.id in self._fixed or self._level_of(other) < self._level_of(job)

    def _with_devices(self, entry: Reservation, job: Job) -> Reservation | None:
        """The reservation with devices: those it has, or those that are free together first."""
        seen = self._plan.snapshot
        known = bool(entry.devices) and seen.free.knows(entry.devices)
        if known and all(d in seen.tenants or seen.free.holds((d,)) for d in entry.devices):
            late = [other for other in self._holders(entry.devices) if self._remains(other, job)]
            if self._now < entry.by_at or not late:
                return entry
            return self._again(entry, job, late)
        return self._chosen(entry, job, {})

    def _again(self, entry: Reservation, job: Job, late: Iterable[Job]) -> Reservation | None:
        """The reservation after a moment that these jobs made it miss."""
        first_at = min(entry.due_at, entry.by_at)
        outlived_s = max(_LEAST_S, self._now - first_at)
        found = self._chosen(entry, job, {other.id: outlived_s for other in late})
        if found is None:
            return None
        in_s = max(outlived_s, found.by_at - self._now)
        lent_s = (1.0 - _UNLENT) * in_s
        return found._replace(
            due_at=first_at, by_at=self._now + in_s, lent_until_at=self._now + lent_s
        )

    def _chosen(
        self, entry: Reservation, job: Job, stay_s: Mapping[JobId, float]
    ) -> Reservation | None:
        """With the devices that are free together first. stay_s: how long jobs stay at least."""
        room, size = self._plan.room.copy(), job.least(resizes=self._resizes)
        for in_s, other, held in self._ends(job, stay_s):
            room.release(other, held)
            found = room.place(job, size)
            if found is not None:
                return entry._replace(
                    by_at=self._now + in_s, devices=found, lent_until_at=inf, due_at=inf
                )
        return None

    def _ends(self, job: Job, stay_s: Mapping[JobId, float]) -> list[tuple[float, Job, Allocation]]:
        """Running jobs with the seconds until they are gone, or can make way."""
        found = []
        for other in self._plan.snapshot.holding():
            held = self._plan.has(other.id)
            if held is None or other.allocation is None:
                continue
            in_s = left_s(other, self._belief, self._now)
            if not self._remains(other, job):
                in_s = min(in_s, WORTH_S)
            found.append((max(in_s, stay_s.get(other.id, 0.0)), other, held))
        return sorted(found, key=lambda each: (each[0], each[1].sequence))

    def _holders(self, devices: Sequence[Device]) -> list[Job]:
        snapshot = self._plan.snapshot
        names = sorted(snapshot.on(devices))
        return [snapshot.jobs[name] for name in names if self._plan.has(name) is not None]


def reserved_from(
    job: Job,
    entries: Sequence[Reservation],
    level_of: LevelOf,
    belief: PerformanceModel,
    plan: Plan,
) -> frozenset[Device]:
    """The devices that are reserved for others, and not lent to this job."""
    head = next((entry for entry in entries if entry.devices), None)
    if head is None or head.job == job.id:
        return frozenset()
    higher = level_of(job) < level_of(plan.snapshot.jobs[head.job])
    if higher or _gone_by(job, head, belief, plan.snapshot.now):
        return frozenset()
    if asks_host(job.spec) and asks_host(plan.snapshot.jobs[head.job].spec):
        nodes = {device.node for device in head.devices}  # What they ask for is of a node.
        return frozenset(device for device in plan.snapshot.emptied() if device.node in nodes)
    return frozenset(head.devices)


def _gone_by(job: Job, head: Reservation, belief: PerformanceModel, now: float) -> bool:
    """Whether a job would leave reserved devices in time, and gain by having them until then."""
    room_s = head.by_at - now
    if now >= head.lent_until_at:
        return False
    if job.spec.gives_way and room_s >= WORTH_S:
        return True
    return job.remaining_at(now) / belief.alone(job.spec, job.spec.asked) <= room_s


def look_again_at(entries: Iterable[Reservation], now: float) -> float:
    """When reservations are to be looked at again."""
    found = [
        max(at, now + max(_LEAST_S, _UNLENT * (now - at))) if at <= now else at
        for entry in entries
        if entry.devices
        for at in (entry.by_at, entry.lent_until_at)
    ]
    return min(found, default=inf)
