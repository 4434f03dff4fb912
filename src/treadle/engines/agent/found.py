"""Attempts on disk: what an earlier agent has left here, alive or not."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from treadle.core.allocation import Allocation, Pause
from treadle.core.cluster import Device
from treadle.core.job import JobId
from treadle.core.launch import AttemptId, Part
from treadle.core.plan import DATA_PARALLEL, plan_of
from treadle.engines.node import attempt_folders as folders
from treadle.engines.node.attempt_folders import AttemptFolders, AttemptStatus, Supervisor
from treadle.engines.node.members_files import read_members
from treadle.engines.node.pause_files import read_reached
from treadle.files import is_folder


class Found(NamedTuple):
    """An attempt on disk."""

    id: AttemptId
    folder: Path
    alive: bool  # its supervisor runs, and holds the lock
    supervisor: Supervisor | None
    status: AttemptStatus | None
    ordered: int | None = None  # the order it was launched for, until its end is seen
    members: Mapping[str, Any] | None = None  # what its supervisor wrote of changes
    paused: Mapping[str, Any] | None = None  # and of pauses

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
            paused = -1 if self.paused is None else int(self.paused["action"])
            return max(self.supervisor.action, self._changed, paused)
        return -1 if self.ordered is None else self.ordered

    @property
    def _changed(self) -> int:
        return -1 if self.members is None else int(self.members["action"])

    @property
    def never_was(self) -> bool:
        """Its folder was made, and no supervisor ever ran there."""
        return not self.alive and self.supervisor is None and self.status is None

    @property
    def ended(self) -> bool:
        """Whether it is written down there how it ended."""
        return self.status is not None and self.status.ended

    @property
    def changes(self) -> tuple[str, ...]:
        """What it can change while it runs."""
        return () if self.members is None else tuple(self.members["can"])

    @property
    def part(self) -> Part | None:
        """Of an attempt on several nodes: that of this one."""
        written = None if self.supervisor is None else self.supervisor.part
        if written is None:
            return None
        return msgspec.convert(written, Part)

    def allocation(self, node: str) -> Allocation | None:
        """The devices that it has, if its supervisor wrote them down."""
        known, members = self.supervisor, self.members
        if known is None or not known.devices:
            return None
        paused = Pause(self.paused["how"]) if self.paused and self.paused["how"] else None
        numbers, plan = known.devices, DATA_PARALLEL
        if members is not None and self._changed >= known.action:
            numbers, plan = members["devices"], plan_of(members.get("plan", ""))
        devices = tuple(Device(node, number) for number in numbers)
        return Allocation(devices, plan=plan, turn=known.turn, paused=paused)


def look(places: AttemptFolders, attempt: AttemptId) -> Found:
    folder = places.path(*attempt)
    alive = False
    if is_folder(folder):
        with folders.locked(folder) as free:
            alive = not free
    # Read after the lock: a supervisor writes its files before it releases the lock.
    left = left_by(attempt, folder)
    return left._replace(alive=alive, ordered=places.ordered_by(*attempt))


def alive(places: AttemptFolders) -> list[Found]:
    """Attempts that run."""
    return [found for mark in places.live() if (found := look(places, mark)).alive]


def any_runs(places: AttemptFolders) -> bool:
    """Whether an attempt is alive; of a folder that is gone, none can be taken over."""
    with suppress(FileNotFoundError):
        return any(look(places, attempt).alive for attempt in places.live())
    return False


def left_by(attempt: AttemptId, folder: Path) -> Found:
    """What an attempt has left whose supervisor is gone."""
    supervisor, status = folders.read_supervisor(folder), folders.read_status(folder)
    members, paused = read_members(folder), read_reached(str(folder))
    return Found(attempt, folder, False, supervisor, status, None, members, paused)
