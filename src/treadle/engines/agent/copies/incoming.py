"""A folder that arrives piece by piece and appears at once.

It is put together in a folder of its own beside its place, which only the agent can enter. What the
folder in its place holds already is linked and not sent again: a file of the same size and time is
taken for the same. A file counts only when it is complete, and the folder takes its place only when
all of it has come. What was cut off halfway leaves the folder that was there as it was, and its
complete files are used the next time.

    <parent>/<name>             the folder in its place
    <parent>/.incoming-<name>/  tree/ as far as it is complete, part: the file that is coming
    <parent>/.outgoing-<name>   the folder that is being replaced
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from treadle.core.errors import EngineError
from treadle.engines.agent.copies.tree import FILE, FOLDER, LINK, Entry
from treadle.files import flush

_MARKS = _INCOMING, _OUTGOING = ".incoming-", ".outgoing-"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Owner:
    """To whom the copy belongs; None: to the user of the agent."""

    uid: int | None = None
    gid: int | None = None

    def take(self, file: int) -> None:
        """Give a file or folder that the agent made to its owner."""
        if os.geteuid() == 0 and self.uid is not None:
            os.fchown(file, self.uid, -1 if self.gid is None else self.gid)


class Incoming:
    """One folder. All methods touch the disk: they are called in threads, one at a time."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._beside = place.with_name(f"{_INCOMING}{place.name}")
        self._tree, self._part = self._beside / "tree", self._beside / "part"
        self._outgoing = place.with_name(f"{_OUTGOING}{place.name}")

    def recover(self) -> None:
        """Undo half a replacement that a crash has left."""
        if not os.path.lexists(self._outgoing):
            return
        if os.path.lexists(self.place):
            shutil.rmtree(self._outgoing, ignore_errors=True)
        else:
            self._outgoing.rename(self.place)

    def expect(self, entries: Sequence[Entry]) -> list[Entry]:
        """Begin, or go on; the files that must be sent."""
        self.recover()
        self._tree.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._beside.chmod(0o700)
        self._part.unlink(missing_ok=True)
        self._clear(entries)
        files = [entry for entry in entries if entry.kind == FILE]
        return [entry for entry in files if not (self._has(entry) or self._linked(entry))]

    def write(self, entry: Entry, offset: int, data: bytes, check: str, owner: Owner) -> None:
        """The next piece of a file; a piece may come twice, and none may be missing."""
        if digest(data) != check:
            raise EngineError(f"a piece of {entry.path!r} arrived damaged", retryable=True)
        if self._has(entry):
            return  # The answer to its last piece was lost.
        if not self._tree.is_dir() or not 0 <= offset <= offset + len(data) <= entry.size:
            raise EngineError(f"no such piece of {entry.path!r} is expected", retryable=False)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(self._part, flags | (0 if offset else os.O_TRUNC), 0o600)
        try:
            if os.fstat(file).st_size < offset:
                raise EngineError(f"a piece of {entry.path!r} is missing", retryable=False)
            done = 0
            while done < len(data):
                done += os.pwrite(file, memoryview(data)[done:], offset + done)
            if offset + done == entry.size:
                self._finish(file, entry, owner)
        finally:
            os.close(file)

    def commit(self, entries: Sequence[Entry], owner: Owner) -> None:
        """Put the folder in its place. Raises EngineError if something is missing."""
        for entry in entries:
            if entry.kind == FILE and not self._has(entry):
                raise EngineError(f"{entry.path!r} has not come yet", retryable=False)
        for entry in entries:
            if entry.kind == FOLDER:
                self._folder(self._tree / entry.path, owner)
        for entry in entries:
            if entry.kind == LINK:
                self._link(entry, owner)
        for entry in reversed(entries):  # Inner ones first: a mode may shut a folder.
            if entry.kind == FOLDER:
                (self._tree / entry.path).chmod(entry.mode | 0o700)
        self._folder(self._tree, owner)
        if os.path.lexists(self.place):
            self.place.rename(self._outgoing)
        self._tree.rename(self.place)
        flush(self.place.parent)
        shutil.rmtree(self._outgoing, ignore_errors=True)
        shutil.rmtree(self._beside, ignore_errors=True)

    def abandon(self) -> None:
        """Remove what has come so far."""
        self.recover()
        shutil.rmtree(self._beside, ignore_errors=True)

    def newest(self) -> float:
        """When it last got something, by the clock of files."""
        parts = (self._beside, self._tree, self._part, self._outgoing)
        times = (path.lstat().st_ctime for path in parts if os.path.lexists(path))
        return max(times, default=0.0)

    # -- pieces ---------------------------------------------------------------------------------

    def _has(self, entry: Entry) -> bool:
        """Whether a file has come whole."""
        return _is_same(self._tree / entry.path, entry)

    def _linked(self, entry: Entry) -> bool:
        """Take a file over from the folder in its place, if it is the same there."""
        old, new = self.place / entry.path, self._tree / entry.path
        if not _is_same(old, entry) or not old.parent.resolve().is_relative_to(
            self.place.resolve()
        ):
            return False  # It changed, or a link leads out of the folder.
        new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):
            os.link(old, new, follow_symlinks=False)
        return _is_same(new, entry)

    def _finish(self, file: int, entry: Entry, owner: Owner) -> None:
        """All bytes of a file are there: give it its name."""
        owner.take(file)
        os.fchmod(file, entry.mode)
        os.utime(file, ns=(entry.mtime_ns, entry.mtime_ns))
        os.fsync(file)
        path = self._tree / entry.path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._part.rename(path)

    def _folder(self, path: Path, owner: Owner) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            owner.take(handle)
            os.fsync(handle)
        finally:
            os.close(handle)

    def _link(self, entry: Entry, owner: Owner) -> None:
        path = self._tree / entry.path
        path.unlink(missing_ok=True)
        path.symlink_to(entry.link)
        if os.geteuid() == 0 and owner.uid is not None:
            gid = -1 if owner.gid is None else owner.gid
            os.chown(path, owner.uid, gid, follow_symlinks=False)

    def _clear(self, entries: Sequence[Entry]) -> None:
        """Remove what came before and is not wanted any more."""
        wanted = {entry.path: entry for entry in entries if entry.kind == FILE}
        folders = {entry.path for entry in entries if entry.kind == FOLDER}
        for folder, inner, names in os.walk(self._tree, topdown=False):
            links = [name for name in inner if Path(folder, name).is_symlink()]
            for name in (*links, *names):  # Links are made in the end, all of them.
                path = Path(folder, name)
                entry = wanted.get(str(path.relative_to(self._tree)))
                if entry is None or not _is_same(path, entry):
                    path.unlink()
            if str(Path(folder).relative_to(self._tree)) not in {".", *folders}:
                Path(folder).rmdir()


def drafts_in(parent: Path) -> list[str]:
    """Names of the folders that were coming, or were being replaced, and are not in their place."""
    with suppress(FileNotFoundError):
        names = [path.name for path in parent.iterdir()]
        marked = [(name, mark) for name in names for mark in _MARKS if name.startswith(mark)]
        return sorted({name.removeprefix(mark) for name, mark in marked})
    return []


def _is_same(path: Path, entry: Entry) -> bool:
    """Whether there is a file of that size and time."""
    try:
        found = path.lstat()
    except OSError:
        return False
    same = (found.st_size, found.st_mtime_ns) == (entry.size, entry.mtime_ns)
    return stat.S_ISREG(found.st_mode) and same
