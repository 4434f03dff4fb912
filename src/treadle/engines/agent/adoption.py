"""After a restart of the controller: which attempts run or ended, and which orders are still owed.

Only attempts that the controller names by number and nonce are its own. Others that run are strays,
whatever their numbers: the store was restored from a backup, or no job waits for them.

For every job that holds or releases devices we compare the order of its newest attempt on disk with
the job's row:

    the newest order of the job                -> the attempt answers that order
    older, but of the present hold             -> the attempt is stopped for the newest order
    older than the Start of the present hold   -> it has ended and was reported before
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from treadle.core.actions import Action, Change, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.node import attempt_folders as folders
from treadle.engines.node.attempt_folders import AttemptFolders, AttemptStatus, Supervisor
from treadle.engines.node.members_files import read_members
from treadle.files import is_folder

_HELD = frozenset({Phase.STARTING, Phase.RUNNING})
_LEAVING = frozenset({Phase.STOPPING, Phase.CANCELLING})


class Found(NamedTuple):
    """An attempt on disk."""

    id: AttemptId
    folder: Path
    alive: bool  # its supervisor runs, and holds the lock
    supervisor: Supervisor | None
    status: AttemptStatus | None
    ordered: int | None = None  # the order it was launched for, until its end is seen
    changed: int = -1  # the newest order that it carried out while it ran

    @property
    def job(self) -> JobId:
        return self.id.job

    @property
    def number(self) -> int:
        return self.id.number

    @property
    def action(self) -> int:
        """The order it was launched for, or changed for since.

        A supervisor that just begins has not written it down.
        """
        if self.supervisor is not None:
            return max(self.supervisor.action, self.changed)
        return -1 if self.ordered is None else self.ordered

    @property
    def never_was(self) -> bool:
        """Its folder was made, and no supervisor ever ran there."""
        return not self.alive and self.supervisor is None and self.status is None

    def allocation(self, node: str) -> Allocation | None:
        """The devices that it holds, if its supervisor wrote them down."""
        if self.supervisor is None or not self.supervisor.devices:
            return None
        devices = tuple(Device(node, number) for number in self.supervisor.devices)
        return Allocation(devices, turn=self.supervisor.turn)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What to do about one job."""

    job: JobId
    newest: int  # id of its newest order
    found: Found | None = None  # to be watched, or reported if its supervisor is gone
    owed: Action | None = None  # an order that still has to be carried out or answered
    starting: bool = False  # its start has not been reported
    allocation: Allocation | None = None  # of the newest order


class Plan(NamedTuple):
    jobs: list[Adoption]
    strays: list[Found]  # attempts that no job knows, most of them alive
    over: list[Found]  # attempts that have ended or never began, and were not reported


def look(places: AttemptFolders, attempt: AttemptId) -> Found:
    folder = places.path(*attempt)
    alive = False
    if is_folder(folder):
        with folders.locked(folder) as free:
            alive = not free
    # Read after the lock: a supervisor writes its files before it releases the lock.
    supervisor, status = folders.read_supervisor(folder), folders.read_status(folder)
    ordered, changed = places.ordered_by(*attempt), _changed(folder)
    return Found(attempt, folder, alive, supervisor, status, ordered, changed)


def _changed(folder: Path) -> int:
    members = read_members(folder)
    return -1 if members is None else int(members["action"])


def left_by(attempt: AttemptId, folder: Path) -> Found:
    """What an attempt has left whose supervisor is gone."""
    supervisor, status = folders.read_supervisor(folder), folders.read_status(folder)
    return Found(attempt, folder, False, supervisor, status, None, _changed(folder))


def plan(places: AttemptFolders, jobs: Iterable[Job], unreported: Collection[AttemptId]) -> "Plan":
    """What to do about each job, about other attempts that run, and about ends not reported."""
    adoptions: list[Adoption] = []
    known: set[AttemptId] = set()
    waits: set[JobId] = set()  # jobs whose next attempt has no folder yet, and may never have one
    own: dict[JobId, list[AttemptId]] = {}
    for attempt in sorted(unreported):
        own.setdefault(attempt.job, []).append(attempt)
    for job in jobs:
        mine = own.get(job.id, [])
        adoption = _adoption(places, job, mine)
        if adoption is None:
            continue
        adoptions.append(adoption)
        if adoption.found is not None:
            known.add(adoption.found.id)
        if not isinstance(adoption.owed, Stop):
            waits.add(job.id)
            known |= {mark for mark in mine if places.ordered_by(*mark) == job.action}
    strays = [look(places, mark) for mark in places.live() if mark not in known]
    live = known | {stray.id for stray in strays if stray.alive}
    over = [
        look(places, attempt)
        for attempt in sorted(set(unreported) - live)
        # The next attempt of a job that runs, or is owed one, is not over: it has not begun.
        if attempt.job not in waits or is_folder(places.path(*attempt))
    ]
    return Plan(adoptions, strays, over)


def _adoption(places: AttemptFolders, job: Job, mine: Sequence[AttemptId]) -> Adoption | None:
    holds = job.phase in _HELD and job.allocation is not None
    if not holds and job.phase not in _LEAVING:
        return None
    found = _newest(places, job, mine, holds=holds)
    if job.phase in _LEAVING or job.allocation is None:
        return Adoption(job.id, job.action, found, Stop(job.action, job.id))
    owed = None
    if found is None or found.action != job.action:
        owed = Change(job.action, job.id, job.allocation)
    starting = job.phase is Phase.STARTING
    return Adoption(job.id, job.action, found, owed, starting, job.allocation)


def _newest(
    places: AttemptFolders, job: Job, mine: Sequence[AttemptId], *, holds: bool
) -> Found | None:
    """The newest of the job's own attempts on disk, if it has to do with the present hold.

    mine: those whose end was not seen, by number.
    """
    there = [attempt for attempt in mine if is_folder(places.path(*attempt))]
    if not there:
        return None
    found = look(places, there[-1])
    if found.never_was:
        if holds and places.ordered_by(*found.id) == job.action:
            return None  # It is launched there again; if both happen, the lock decides.
        # A supervisor that starts late must see that it is not wanted any more.
        if folders.seal(found.folder, "stopped"):
            return None
        found = look(places, found.id)
    if found.action < job.attempt and not found.alive:
        return None  # It belongs to an earlier hold, whose end has been reported.
    return found
