"""After a restart of the controller: what ran on is found again, and what is owed is done.

For every job that holds devices, or was told to let go of them, the newest attempt on disk says
what there is. Its action is compared with the job's row: equal to the newest order, it is that
order's; older, but not older than the Start of the present hold, it must make way for the newest
order; older still, and gone, it has nothing to do with this hold.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from treadle.core.actions import Action, Change, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.engines.node import folders
from treadle.engines.node.folders import AttemptStatus, Folders, Supervisor

_HELD = frozenset({Phase.STARTING, Phase.RUNNING})
_LEAVING = frozenset({Phase.STOPPING, Phase.CANCELLING})


class Found(NamedTuple):
    """An attempt on disk."""

    job: JobId
    number: int
    folder: Path
    alive: bool  # its supervisor holds the lock
    supervisor: Supervisor | None
    status: AttemptStatus | None

    @property
    def action(self) -> int:
        return -1 if self.supervisor is None else self.supervisor.action

    @property
    def never_was(self) -> bool:
        """Its folder was made, and no supervisor ever came."""
        return not self.alive and self.supervisor is None and self.status is None

    def allocation(self, node: str) -> Allocation | None:
        """The devices that it occupies, if it came so far as to say."""
        if self.supervisor is None or not self.supervisor.devices:
            return None
        devices = tuple(Device(node, number) for number in self.supervisor.devices)
        return Allocation(devices, turn=self.supervisor.turn)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What to do about one job."""

    job: JobId
    newest: int  # id of its newest order
    found: Found | None = None  # to be watched, or buried if its supervisor is gone
    owed: Action | None = None  # to be carried out, or to be answered
    starting: bool = False  # its start has not been reported


def look(places: Folders, job: JobId, number: int) -> Found:
    folder = places.path(job, number)
    alive = False
    if folder.is_dir():
        with folders.locked(folder) as free:
            alive = not free
    # Read after the lock: what a supervisor leaves, it leaves before it lets go.
    supervisor, status = folders.read_supervisor(folder), folders.read_status(folder)
    return Found(job, number, folder, alive, supervisor, status)


def plan(places: Folders, jobs: Iterable[Job]) -> tuple[list[Adoption], list[Found]]:
    """What to do about each job, and survivors that no job knows of."""
    adoptions: list[Adoption] = []
    known: set[tuple[JobId, int]] = set()
    for job in jobs:
        adoption = _adoption(places, job)
        if adoption is not None:
            adoptions.append(adoption)
            if adoption.found is not None:
                known.add((job.id, adoption.found.number))
    strays = [look(places, *mark) for mark in places.live() if mark not in known]
    return adoptions, strays


def _adoption(places: Folders, job: Job) -> Adoption | None:
    holds = job.phase in _HELD and job.allocation is not None
    if not holds and job.phase not in _LEAVING:
        return None
    found = _newest(places, job, holds=holds)
    if job.phase in _LEAVING or job.allocation is None:
        return Adoption(job.id, job.action, found, Stop(job.action, job.id))
    owed = None
    if found is None or found.action != job.action:
        owed = Change(job.action, job.id, job.allocation)
    return Adoption(job.id, job.action, found, owed, job.phase is Phase.STARTING)


def _newest(places: Folders, job: Job, *, holds: bool) -> Found | None:
    """The newest attempt on disk, if it has to do with the present hold."""
    numbers = places.attempts(job.id)
    if not numbers:
        return None
    found = look(places, job.id, numbers[-1])
    if found.never_was:
        if holds and places.ordered_by(job.id, found.number) == job.action:
            return None  # It is to be launched there; if that still happens, the lock decides.
        # A supervisor that comes late must find that it is not wanted any more.
        if folders.seal(found.folder, "stopped"):
            return None
        found = look(places, job.id, found.number)
    if found.action < job.attempt and not found.alive:
        return None  # It belongs to an earlier hold, whose end has been reported.
    return found
