"""Move small and elastic jobs out of the way of one that has enough devices, but not together.

When the first job that waits would fit by count and finds no place, running jobs move to other free
devices so that it does. Each move costs the moved job a restart, so there are at most so many in an
hour, and no job moves twice within a cool-down. Which job moved when is the wrapper's memory; after
a restart it begins with a whole budget.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies.base.placement import Consolidate, Placement
from treadle.policies.wrappers.views import Changes, free_after, plain
from treadle.policies.wrappers.wrapper import Note, Remembering

_HOUR_S = 3600.0
_TOGETHER = Consolidate()  # where a job needs its devices, and where those go that move


class Move(NamedTuple):
    at: float
    job: JobId


class Defrag(Remembering):
    """Moves small or elastic jobs to make room on nodes for a job that waits for it.

    budget: moves an hour at most. cooldown_s: how long a job that moved is left alone.
    small: jobs of up to so many devices are moved; elastic ones whatever their size.
    """

    def __init__(
        self,
        inner: Policy,
        placement: Placement,  # noqa: ARG002
        belief: PerformanceModel,  # noqa: ARG002
        *,
        budget: int = 6,
        cooldown_s: float = 3600.0,
        small: int = 2,
    ) -> None:
        if budget < 0:
            raise InvalidInputError(f"defrag budget must be 0 or more, not {budget}")
        if not cooldown_s >= 0:
            raise InvalidInputError(f"defrag cooldown_s must be 0 or more, not {cooldown_s:g}")
        super().__init__(inner)
        self._budget = budget
        self._cooldown_s = cooldown_s
        self._small = small

    def decide(self, snapshot: Snapshot) -> Schedule:
        schedule = self.inner.decide(self.inside(snapshot))
        moves = self._moves(snapshot)
        changes = dict(schedule.changes)
        stuck = self._stuck(snapshot, changes)
        if stuck is not None:
            made = self._room(snapshot, changes, stuck, moves)
            changes |= made
            moves = (*moves, *(Move(snapshot.now, i) for i in made if i != stuck.id))
        return Schedule(changes, schedule.valid_until, Note(moves, schedule.memory))

    def _moves(self, snapshot: Snapshot) -> tuple[Move, ...]:
        """Those that still count."""
        known = self.remembered(snapshot)
        if not isinstance(known, tuple):
            return ()
        since = snapshot.now - max(_HOUR_S, self._cooldown_s)
        return tuple(move for move in known if move.at > since)

    def _stuck(self, snapshot: Snapshot, changes: Changes) -> Job | None:
        """The first job that waits, if it has enough free devices and they do not suit it."""
        free = free_after(snapshot, changes)
        for _, _, identity in snapshot.ranking.queue:
            if changes.get(identity) is None:
                job = snapshot.jobs[identity]
                size = job.spec.asked
                fits = size <= free.total and _TOGETHER.place(free, size) is None
                return job if fits and plain(job.spec) else None
        return None

    def _room(
        self, snapshot: Snapshot, changes: Changes, stuck: Job, moves: Sequence[Move]
    ) -> dict[JobId, Allocation | None]:
        """Moves that let the job start, and its start; nothing if the budget does not suffice."""
        now = snapshot.now
        left = self._budget - sum(move.at > now - _HOUR_S for move in moves)
        resting = {move.job for move in moves if move.at > now - self._cooldown_s}
        free = free_after(snapshot, changes)
        tenants = self._movable(snapshot, changes, resting)
        target = min(stuck.spec.asked, free.largest)
        made: dict[JobId, Allocation | None] = {}
        kept: set[str] = set()  # nodes that were cleared and are not to be filled again
        for node in _nearest(free, tenants, target):
            kept.add(node)
            cleared = _cleared(free, tenants[node], target - free.count_on(node), kept)
            if cleared is None or len(made) + len(cleared) > left:
                kept.remove(node)
                continue
            for job, devices in cleared.items():
                assert job.allocation is not None, "a job that moves holds devices"
                made[job.id] = Allocation(devices, job.allocation.plan)
                free.give(job.allocation.devices)
                free.take(devices)
            found = _TOGETHER.place(free, stuck.spec.asked)
            if found is not None:
                return made | {stuck.id: Allocation(found)}
        return {}

    def _movable(
        self, snapshot: Snapshot, changes: Changes, resting: set[JobId]
    ) -> dict[str, list[Job]]:
        """Jobs by node that could go elsewhere: on one node, alone there on their devices."""
        by_node: dict[str, list[Job]] = {}
        for job in snapshot.holding():
            allocation = job.allocation
            assert allocation is not None, "holding jobs hold"
            if (
                (job.size <= self._small or job.spec.elastic)
                and job.phase is Phase.RUNNING
                and job.id not in changes
                and job.id not in resting
                and len(nodes := allocation.nodes()) == 1
                and all(len(snapshot.tenants[device]) == 1 for device in allocation.devices)
            ):
                by_node.setdefault(nodes[0], []).append(job)
        return by_node


def _nearest(free: FreeDevices, tenants: dict[str, list[Job]], target: int) -> list[str]:
    """Nodes on which so many devices could be had, those with the least to move first."""
    missing: list[tuple[int, str]] = []
    for node, jobs in tenants.items():
        count = free.count_on(node)
        if 0 < target - count <= sum(job.size for job in jobs):
            missing.append((target - count, node))
    return [node for _, node in sorted(missing)]


def _cleared(
    free: FreeDevices, jobs: Sequence[Job], missing: int, kept: Collection[str]
) -> dict[Job, tuple[Device, ...]] | None:
    """Where jobs of a node go to free so many devices of it; None if they find no room."""
    rest = free.withholding([device for device in free if device.node in kept])
    moved: dict[Job, tuple[Device, ...]] = {}
    for job in sorted(jobs, key=lambda job: (-job.size, job.sequence)):
        if missing <= 0:
            break
        devices = _TOGETHER.place(rest, job.size)
        if devices is not None:
            rest.take(devices)
            moved[job] = devices
            missing -= job.size
    return moved if missing <= 0 else None
