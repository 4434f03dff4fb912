"""The folder in memory (/dev/shm) through which members hand over state at a change of plan.

Its name holds the tag of the attempt, so that what a killed supervisor has left is found and
removed.

Part of the supervisor: it imports the standard library alone.
"""

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress

from treadle.engines.node.plain_files import put

PREFIX = "treadle-group-"
PASS, NUMBER_BYTES = "pass", 18
MEMORY = "/dev/shm"  # not every machine has it


class MemoryFolder:
    """Named at once, because ranks must know the name; made when the first of them speaks."""

    def __init__(self, tag: str, uid: int | None, gid: int | None) -> None:
        self.path = f"{MEMORY}/{PREFIX}{_safe(tag)}.{os.urandom(8).hex()}"
        self._owner = uid, gid
        self._made = False

    def make(self) -> None:
        self._made = True
        with suppress(OSError):
            os.mkdir(self.path, 0o700)
            self._give(self.path)

    def _give(self, path: str) -> None:
        """To the user of the job."""
        uid, gid = self._owner
        if uid is not None:
            os.chown(path, uid, gid or -1, follow_symlinks=False)

    def passes(self) -> int:
        """How far the members are, by the note that the first one keeps (train/auto/notes.py)."""
        with suppress(OSError, ValueError):  # It is the user's: no link, and a number only.
            file = os.open(f"{self.path}/{PASS}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                return int(os.read(file, NUMBER_BYTES))
            finally:
                os.close(file)
        return 0

    def note_passes(self, number: int) -> None:
        """For members that join on another node than the first."""
        self.make()
        with suppress(OSError):
            put(f"{self.path}/{PASS}", b"%d" % number)
            self._give(f"{self.path}/{PASS}")

    def remove(self) -> None:
        if self._made:
            shutil.rmtree(self.path, ignore_errors=True)


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
    with suppress(OSError):
        for entry in os.scandir(MEMORY):
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                yield entry.path, entry.name.removeprefix(PREFIX).rpartition(".")[0]


def _safe(tag: str) -> str:
    return tag.replace("/", "_")
