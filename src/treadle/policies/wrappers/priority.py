"""Higher priorities first, whatever the inner policy is.

The inner policy is asked once for each priority there is, from the highest down: about the jobs of
that priority alone, on the devices that higher ones left. It first sees only what is free. If
a job of that priority still waits, it sees the devices of lower priorities as well, as if those
had released them; a job that loses devices that way waits for its own turn further down. A priority
that asks for no more than is free therefore moves no other job.
"""

from collections.abc import Mapping, Set
from math import inf

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.ranking import Rank, Ranking
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import several
from treadle.policies.base.placement import Placement
from treadle.policies.wrappers.free_first import free_first
from treadle.policies.wrappers.views import Changes, let_go
from treadle.policies.wrappers.wrapper import Note, Remembering, keeps_order


def priority(
    inner: Policy,
    placement: Placement,  # noqa: ARG001
    belief: PerformanceModel,  # noqa: ARG001
) -> "Priorities":
    """Jobs of a higher priority come first, and may take devices from lower ones."""
    return Priorities(inner)


class Priorities(Remembering):
    """The inner policy for each priority, from the highest down."""

    def __init__(self, inner: Policy) -> None:
        super().__init__(inner)
        self.in_order = False  # A job of a higher priority overtakes.

    def decide(self, snapshot: Snapshot) -> Schedule:
        levels = self._levels(snapshot)
        notes = self._notes(snapshot)
        if len(levels) < 2:
            only = levels[0] if levels else 0
            schedule = self.inner.decide(snapshot._replace(memory=notes.get(only)))
            return _noting(schedule, {only: schedule.memory})
        changes: dict[JobId, Allocation | None] = {}
        memories: dict[int, object] = {}
        until = inf
        for level in levels:
            seen, schedule = self._asked(snapshot, changes, level, notes.get(level))
            changes |= _as_changes(snapshot, seen, schedule.changes)
            memories[level] = schedule.memory
            until = min(until, schedule.valid_until)
        changed = {
            identity: new
            for identity, new in free_first(snapshot, changes).items()
            if new != snapshot.jobs[identity].allocation
        }
        return _noting(Schedule(changed, until), memories)

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        row = snapshot.jobs[job]
        levels = self._levels(snapshot)
        own = row.spec.priority
        memory = self._notes(snapshot).get(own)
        if len(levels) < 2:
            return self.inner.why(snapshot._replace(memory=memory), job)
        if row.allocation is not None:
            return self.inner.why(self._around(snapshot, row)._replace(memory=memory), job)
        seen = self._view(snapshot, {}, own, taking=False)
        higher = sum(1 for other in snapshot.waiting() if other.spec.priority > own)
        # Where devices are what lacks, it would wait without the others as well.
        if higher and seen.free.total >= row.spec.sizes[0]:
            others = several(higher, "waiting job has", "waiting jobs have")
            return Reason("rank", f"{others} a higher priority than its {own}")
        if higher and keeps_order(self.inner):
            seen = seen._replace(ranking=_in_line(snapshot, own))
        return self.inner.why(seen._replace(memory=memory), job)

    def held_back(self, snapshot: Snapshot) -> Mapping[int, int]:
        levels = self._levels(snapshot)
        if len(levels) > 1:
            return {}
        memory = self._notes(snapshot).get(levels[0] if levels else 0)
        return self.inner.held_back(snapshot._replace(memory=memory))

    def unshared(self, snapshot: Snapshot) -> Set[JobId]:
        if self.inner.quotas(snapshot) is None:
            return frozenset()
        levels, notes = self._levels(snapshot), self._notes(snapshot)
        if len(levels) < 2:
            memory = notes.get(levels[0] if levels else 0)
            return self.inner.unshared(snapshot._replace(memory=memory))
        found: set[JobId] = set()
        for level in levels:
            seen = self._view(snapshot, {}, level, taking=True)
            found |= self.inner.unshared(seen._replace(memory=notes.get(level)))
        return found

    def _asked(
        self, snapshot: Snapshot, changes: Changes, level: int, memory: object
    ) -> tuple[Snapshot, Schedule]:
        """What the inner policy saw of one priority, and its answer."""
        seen = self._view(snapshot, changes, level, taking=False)
        schedule = self.inner.decide(seen._replace(memory=memory))
        started = {i for i, new in schedule.changes.items() if new is not None}
        stuck = any(job.id not in started for job in seen.waiting())
        lower = any(
            job.allocation is not None and job.spec.priority < level for job in snapshot.holding()
        )
        if stuck and lower:
            taking = self._view(snapshot, changes, level, taking=True)
            return taking, self.inner.decide(taking._replace(memory=memory))
        return seen, schedule

    def _around(self, snapshot: Snapshot, job: Job) -> Snapshot:
        """What the inner policy decides by of a job that holds devices: those of its priority."""
        level = job.spec.priority
        seen = self._view(snapshot, {}, level, taking=False)
        if any(seen.waiting()) and any(one.spec.priority < level for one in snapshot.holding()):
            seen = self._view(snapshot, {}, level, taking=True)
        # A job that shares devices with one of a higher priority has none of its own there.
        return seen if seen.jobs[job.id].allocation is not None else snapshot

    def _view(self, snapshot: Snapshot, changes: Changes, level: int, *, taking: bool) -> Snapshot:
        """The jobs of one priority, on what higher ones leave; `taking`: and on what lower hold."""
        free, ranking = snapshot.emptied(), snapshot.ranking.copy()
        jobs, tenants = dict(snapshot.jobs), dict[Device, dict[int, JobId]]()
        mine: list[Job] = []
        known = [*snapshot.holding(), *snapshot.waiting()]
        names = {job.id for job in known}
        # A job that is out of sight keeps its devices.
        taken: dict[Device, None] = {
            device: None
            for device, own in snapshot.tenants.items()
            if not names.issuperset(own.values())
        }
        for job in known:
            held = changes.get(job.id, job.allocation)
            if job.spec.priority == level:
                mine.append(job)
                continue
            ranking.drop(job.id)
            if held is not None and (job.spec.priority > level or not taking):
                taken |= dict.fromkeys(held.devices)
        for job in mine:
            if job.allocation is None:
                continue
            if any(device in taken for device in job.allocation.devices):
                row = let_go(job, snapshot.now)
                jobs[job.id] = row
                ranking.put(row, snapshot.now)
                continue
            for device in job.allocation.devices:
                tenants.setdefault(device, {})[job.allocation.turn] = job.id
        if tenants:
            free.take(tuple(tenants))
        view = snapshot._replace(jobs=jobs, free=free, tenants=tenants, ranking=ranking)
        return view.withholding(tuple(taken))

    def _levels(self, snapshot: Snapshot) -> list[int]:
        found = {job.spec.priority for job in snapshot.holding()}
        found.update(snapshot.ranking.priorities)
        return sorted(found, reverse=True)

    def _notes(self, snapshot: Snapshot) -> Mapping[int, object]:
        note = self.remembered(snapshot)
        return note if isinstance(note, dict) else {}


def _in_line(snapshot: Snapshot, least: int) -> Ranking:
    """Waiting jobs of this priority and of higher ones, in the order in which they are served."""
    line = [job for job in snapshot.waiting() if job.spec.priority >= least]
    line.sort(key=lambda job: -job.spec.priority)
    places = {job.id: float(place) for place, job in enumerate(line)}
    ranking = Ranking(lambda job, _: Rank(places[job.id]))
    for job in line:
        ranking.put(job, snapshot.now)
    return ranking


def _as_changes(
    snapshot: Snapshot, seen: Snapshot, changes: Changes
) -> dict[JobId, Allocation | None]:
    """The answer about one view, as changes of what is really held."""
    result: dict[JobId, Allocation | None] = {}
    for identity, row in seen.jobs.items():
        if row.allocation is None and snapshot.jobs[identity].allocation is not None:
            result[identity] = None  # Stopped in the view, unless the answer gives it something.
    return result | dict(changes)


def _noting(schedule: Schedule, memories: Mapping[int, object]) -> Schedule:
    return Schedule(schedule.changes, schedule.valid_until, Note(dict(memories), None))
