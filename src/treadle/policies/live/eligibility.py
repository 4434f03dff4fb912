"""Who may run now, and who may be moved.

A policy sees only jobs that could start now and running jobs that could be stopped or changed. A
waiting job that backs off after a failure, or asks for host memory that no node has left, is kept
out of its sight, with the reason. So is one behind as many jobs of its kind as the hosts have room
for, and one that would be given free devices of nodes that do not suit it: a policy takes one for
as good as another.
"""

from bisect import bisect, insort
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from math import inf

from treadle.core.cluster import Cluster
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL
from treadle.core.reasons import Reason
from treadle.core.snapshot import Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.base.suited import words_of
from treadle.policies.live.limits import Bounds
from treadle.policies.live.room import Room, asks_host, avoided_until

OVER_S = 60.0  # what a job does after its training (evaluate, save) an urgent one waits for

_NO_HOST = Reason("host", {})
_PLAIN = (DATA_PARALLEL,)

Level = tuple[int, int]  # lower goes first
LevelOf = Callable[[Job], Level]
Line = tuple[int, int, int]  # of jobs decided about at once: a level, and beyond their users' share
LineOf = Callable[[Job], Line]


@dataclass(slots=True)
class Eligibility:
    """Who is there, who is in the policy's sight, and when that changes by itself."""

    room: Room
    holding: list[Job]  # the last in the policy's order first
    waiting: list[Job]  # in the policy's order
    hidden: dict[JobId, Reason] = field(default_factory=dict)  # waiting jobs
    behind: set[JobId] = field(default_factory=set)  # jobs for which those before leave no room
    misled: set[JobId] = field(default_factory=set)  # jobs that may have no device that is free
    limited: set[JobId] = field(default_factory=set)  # hidden by a limit of their user or tenant
    fixed: dict[JobId, None] = field(default_factory=dict)  # running jobs that stay as they are
    until: float = inf

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        placement: Placement,
        line_of: LineOf,
        *,
        in_order: bool,
        bounds: Bounds | None = None,
    ) -> "Eligibility":
        holding, now = list(snapshot.holding()), snapshot.now
        found = cls(Room(snapshot, placement), holding, list(snapshot.waiting()))
        found.fixed = {job.id: None for job in holding if not movable(job)}
        over = (job.over_at + OVER_S for job in holding if job.over_at is not None)
        suspicious = (avoided_until(job) for job in found.waiting if job.avoid)
        found.until = min((at for at in (*over, *suspicious) if at > now), default=inf)
        if bounds is not None:
            found.room.bind(bounds.limits, holding)
            found._limit(bounds)
        found._back_off(now)
        found._lack_room(snapshot.cluster, line_of, in_order=in_order)
        return found

    def in_sight(self) -> list[Job]:
        """Waiting jobs that may start now."""
        out_of_sight = self.hidden.keys() | self.behind | self.misled
        return [job for job in self.waiting if job.id not in out_of_sight]

    def _limit(self, bounds: Bounds) -> None:
        """Hide jobs whose user or tenant has as much as they may."""
        for job in self.waiting:
            limit = bounds.binding(job, job.spec.sizes[0])
            if limit is not None:
                self.hidden.setdefault(job.id, limit)
                self.limited.add(job.id)

    def _back_off(self, now: float) -> None:
        """Hide jobs that failed a moment ago, unless one of lower priority would pass them."""
        late = [job for job in self.waiting if job.ready_at > now]
        if not late:
            return
        ready = (job.spec.priority for job in self.waiting if job.ready_at <= now)
        lowest = min(ready, default=inf)
        for job in late:
            if job.spec.priority <= lowest:
                numbers = {"failures": job.failures, "in_s": job.ready_at - now}
                self.hidden[job.id] = Reason("backoff", numbers)
                self.until = min(self.until, job.ready_at)

    def _lack_room(self, cluster: Cluster, line_of: LineOf, *, in_order: bool) -> None:
        """Hide jobs for which no node has room, and what they hold up."""
        lines: dict[Line, _Hosts] = {}
        stuck: dict[JobId, Reason] = {}
        for job in self.waiting:
            asks = asks_host(job.spec)
            if job.id in self.hidden or not (asks or job.only_on or job.spec.device_memory_gib):
                continue
            line = line_of(job)
            if line not in lines:
                lines[line] = _Hosts(self._without_lower(line, line_of), cluster)
            hosts = lines[line]
            kind = hosts.of(job)
            if asks and (kind is None or job.spec.host_memory_gib > kind.most_gib):
                stuck[job.id] = _NO_HOST
            elif kind is not None and not (in_order and asks):
                hosts.look(kind, job, self.behind, self.misled)
        self.hidden |= stuck
        if in_order and stuck:
            self._hold_up(stuck, line_of)

    def _without_lower(self, line: Line, line_of: LineOf) -> Room:
        """The room if jobs of lower lines made way."""
        room = self.room.copy()
        for job in self.holding:
            may_go = job.id not in self.fixed or job.pauses
            if may_go and job.allocation is not None and line_of(job) > line:
                room.release(job, job.allocation)
        return room

    def _hold_up(self, stuck: Collection[JobId], line_of: LineOf) -> None:
        """Under a policy that lets no job overtake, all behind of that line or lower wait too."""
        firsts: dict[Line, JobId] = {}  # of each line the first that is stuck
        for job in self.waiting:
            line = line_of(job)
            if job.id in stuck:
                firsts.setdefault(line, job.id)
            elif firsts and job.id not in self.hidden:
                first = next((name for one, name in firsts.items() if one <= line), None)
                if first is not None:
                    self.hidden[job.id] = Reason("order", {"first_job": first})


class _Hosts:
    """Nodes with the host memory and cores that are left of them."""

    def __init__(self, room: Room, cluster: Cluster) -> None:
        self._room, self._cluster = room, cluster
        self._memory_gib, self._cores = room.most_left()
        self._kinds: dict[Hashable, _Kind] = {}

    def of(self, job: Job) -> "_Kind | None":
        """What they have for jobs of its kind; None: no node has as much left as it asks for."""
        spec = job.spec
        if spec.host_memory_gib > self._memory_gib or spec.host_cores > self._cores:
            return None
        # What the needs are made of: to find them takes longer.
        plans = None if spec.plans == _PLAIN else spec.plans
        asked = (spec.host_cores, spec.sizes, plans, words_of(spec, self._cluster))
        where = (spec.device_memory_gib, job.only_on, job.avoid and job.id)
        kind = (asked, where, spec.tenant, spec.guaranteed, spec.resumable, spec.exclusive)
        found = self._kinds.get(kind)
        if found is None:
            needs = self._room.needs(job)
            most_gib = inf if needs is None else self._room.most_gib(needs, spec.sizes[0])
            found = self._kinds[kind] = _Kind(most_gib)
        return found

    def look(self, kind: "_Kind", job: Job, behind: set[JobId], misled: set[JobId]) -> None:
        """Add a job to those that are out of sight, if those of its kind before it ask no more
        and could take all that it could have, or all of the free devices that suit it.
        """
        asked_gib = job.spec.host_memory_gib
        if asked_gib >= kind.full_gib:
            behind.add(job.id)
            return
        if asked_gib >= kind.none_gib:
            misled.add(job.id)
            return
        if asked_gib not in kind.times:
            kind.times[asked_gib] = self._room.times(job)
        before, (most, now) = bisect(kind.asked_gib, asked_gib), kind.times[asked_gib]
        if before >= most:
            kind.full_gib = asked_gib
            behind.add(job.id)
        elif before >= now:
            misled.add(job.id)
            kind.none_gib = kind.none_gib if now else asked_gib
        else:
            insort(kind.asked_gib, asked_gib)


@dataclass(slots=True)
class _Kind:
    """Jobs that are alike but for the memory that they ask for."""

    most_gib: float  # one that asks for more has no place, were all devices free
    full_gib: float = inf  # those before may take all that one could have that asks for so much
    none_gib: float = inf  # no free device suits one that asks for so much, while others are free
    asked_gib: list[float] = field(default_factory=list)  # by those before that are in sight
    # For how many jobs that ask for so much there is memory, and of these devices (Room.times).
    times: dict[float, tuple[float, float]] = field(default_factory=dict)


def movable(job: Job) -> bool:
    """Whether a running job may be stopped or changed.

    One that cannot resume would lose its work; one that starts or stops is on its way; one whose
    training is over ends by itself; of some their users say that they stay as they are.
    """
    return job.spec.gives_way and job.phase is Phase.RUNNING and job.over_at is None


def lingers(job: Job, now: float) -> bool:
    """Whether its training ended so long ago that an urgent job need not wait for it."""
    runs = job.spec.gives_way and job.phase is Phase.RUNNING
    return runs and job.over_at is not None and now >= job.over_at + OVER_S
