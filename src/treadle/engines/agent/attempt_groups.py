"""The group of processes of each attempt: its tag, its scope, and scopes that were left over."""

from collections.abc import Iterable
from contextlib import suppress

from treadle.core.launch import AttemptId
from treadle.engines.agent.found import Found
from treadle.engines.node import memory_folder
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.cgroup import Containment
from treadle.engines.node.scope import Scope, scope_of


class AttemptGroups:
    """Names the groups of attempts in one state folder."""

    def __init__(self, folders: AttemptFolders, containment: Containment) -> None:
        self._folders = folders
        self.containment = containment

    def tag(self, attempt: AttemptId) -> str:
        """What its processes carry in their environment; no other attempt ever has the same."""
        return f"{self._folders.instance}-{attempt.job}-{self._folders.path(*attempt).name}"

    def tag_of(self, found: Found) -> str:
        return found.supervisor.tag if found.supervisor else self.tag(found.id)

    def scope_of(self, found: Found) -> Scope:
        """Its group as its supervisor wrote it down, else the one that it would have."""
        if found.supervisor is not None and found.supervisor.scope is not None:
            with suppress(ValueError):
                return scope_of(found.supervisor.scope)
        return self.containment.named(self.tag_of(found), found.folder)

    def sweep(self, found: Iterable[Found]) -> None:
        """Remove groups that a killed agent made and no supervisor used."""
        alive = {self.tag_of(each) for each in found if each.alive}
        self.containment.sweep(f"{self._folders.instance}-", keep=alive)
        memory_folder.sweep(f"{self._folders.instance}-", keep=alive)
