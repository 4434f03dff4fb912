"""The folders through which the members of an attempt meet and hand over state.

One is for the files by which groups are formed, one in memory (/dev/shm) for the state at a change
of plan. Their names hold the tag of the attempt, so that what a killed supervisor has left is found
and removed.

Part of the supervisor: it imports the standard library alone.
"""

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress

PREFIX = "treadle-group-"
FILES, MEMORY = "/tmp", "/dev/shm"  # not every machine has the second


class MemberFolders:
    """Named at once, because ranks must know the names; made when the first of them speaks."""

    def __init__(self, tag: str, uid: int | None, gid: int | None) -> None:
        name = f"{PREFIX}{_safe(tag)}.{os.urandom(8).hex()}"
        self.groups = f"{FILES}/{name}"
        self.memory = f"{MEMORY}/{name}"
        self._owner = uid, gid
        self._made = False

    def make(self) -> None:
        self._made = True
        self._make(self.groups)
        with suppress(OSError):
            self._make(self.memory)

    def remove(self) -> None:
        if self._made:
            for folder in (self.groups, self.memory):
                shutil.rmtree(folder, ignore_errors=True)

    def _make(self, folder: str) -> None:
        os.mkdir(folder, 0o700)
        uid, gid = self._owner
        if uid is not None:
            os.chown(folder, uid, gid or -1, follow_symlinks=False)


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


def _all() -> Iterator[tuple[str, str]]:
    """Our folders, with their tags; a link that another user made is none."""
    for place in (FILES, MEMORY):
        with suppress(OSError):
            for entry in os.scandir(place):
                if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                    yield entry.path, entry.name.removeprefix(PREFIX).rpartition(".")[0]


def _safe(tag: str) -> str:
    return tag.replace("/", "_")
