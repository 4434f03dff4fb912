"""The folders through which the members of an attempt meet and hand over state.

One is for the files by which groups are formed, one in memory (/dev/shm) for the state at a change
of plan. Their names hold the tag of the attempt, so that what a killed supervisor has left is found
and removed.

Part of the supervisor: it imports the standard library alone.
"""

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PREFIX = "treadle-group-"
MEMORY = Path("/dev/shm")


class MemberFolders(NamedTuple):
    groups: Path
    memory: Path | None  # None: this machine has none

    @classmethod
    def make(cls, tag: str, uid: int | None, gid: int | None) -> "MemberFolders":
        prefix = f"{PREFIX}{_safe(tag)}."
        groups = Path(tempfile.mkdtemp(prefix=prefix))
        memory = None
        with suppress(OSError):
            memory = Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY))
        for folder in (groups, memory):
            if folder is not None and uid is not None:
                os.chown(folder, uid, gid or -1, follow_symlinks=False)
        return cls(groups, memory)

    def remove(self) -> None:
        for folder in (self.groups, self.memory):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


def remove_of(tag: str) -> None:
    """What the supervisor of that attempt has left."""
    for folder, found in _all():
        if found == _safe(tag):
            shutil.rmtree(folder, ignore_errors=True)


def sweep(start: str, keep: Collection[str]) -> None:
    """Folders of attempts whose tags start so, except those that live."""
    kept = {_safe(tag) for tag in keep}
    for folder, tag in _all():
        if tag.startswith(_safe(start)) and tag not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def _all() -> Iterator[tuple[Path, str]]:
    """Our folders, with their tags; a link that another user made is none."""
    for place in (Path(tempfile.gettempdir()), MEMORY):
        with suppress(OSError):
            for entry in os.scandir(place):
                if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                    yield Path(entry.path), entry.name.removeprefix(PREFIX).rpartition(".")[0]


def _safe(tag: str) -> str:
    return tag.replace("/", "_")
