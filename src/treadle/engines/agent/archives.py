"""The code of jobs whose folder a node does not see: it is sent in pieces, and unpacked once.

    code/<uid>/<digest>         what was packed at submission; jobs of that user run there
    code/<uid>/.<digest>.used   when one did last, and what its files were like
    code/<digest>.part          what has come of an archive so far

What jobs have written there is theirs, and stays.
"""

import asyncio
import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from treadle.code_archive import ArchiveError, unpack
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.launch import Launch
from treadle.engines.agent.messages import Archive, ArchiveTaken

KEPT_S = 30 * 86_400.0  # an unpacked archive that no job uses, and none has written to
PART_KEPT_S = 86_400.0
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Archives:
    """What an agent has of them."""

    def __init__(self, root: Path, sees: Callable[[str], bool]) -> None:
        """sees: whether a path leads to a folder here."""
        self._root, self._sees = root / "code", sees
        self._one = asyncio.Lock()

    async def take(self, asked: Archive) -> ArchiveTaken:
        """Say whether the folder is here, take a piece of its archive, unpack the last one."""
        if asked.digest and not _DIGEST.fullmatch(asked.digest):
            raise InvalidInputError(f"{asked.digest[:80]!r} names no archive")
        try:
            sees = await asyncio.to_thread(self._sees, asked.path)
            if sees or not asked.digest:
                return ArchiveTaken(sees=sees)
            async with self._one:
                return await asyncio.to_thread(self._take, asked)
        except (ArchiveError, tarfile.TarError, OSError) as error:
            why = f"the archive of {asked.path} cannot be unpacked: {error}"
            raise EngineError(why, retryable=False) from None

    def fitted(self, launch: Launch) -> Launch:
        """In the unpacked archive, if the job's folder is not seen here."""
        if not launch.archive or self._sees(launch.workdir):
            return launch
        return replace(launch, workdir=str(self._folder(launch.archive, launch.uid)))

    async def sweep(self, used: Collection[str]) -> None:
        """Remove what no job has needed for long. used: working folders of jobs that run."""
        async with self._one:
            await asyncio.to_thread(self._sweep, used)

    def _sweep(self, used: Collection[str]) -> None:
        if not self._root.is_dir():
            return
        os.utime(self._root)  # By the clock of the file system.
        now = self._root.stat().st_mtime
        for part in self._root.glob("*.part"):
            if now - part.stat().st_mtime > PART_KEPT_S:
                part.unlink()
        for note in self._root.glob("*/.*.used"):
            folder = note.with_name(note.name[1:].removesuffix(".used"))
            if str(folder) in used or now - note.stat().st_mtime < KEPT_S:
                continue
            if note.read_text() == _newest(folder):
                shutil.rmtree(folder, ignore_errors=True)
                note.unlink()

    def _folder(self, digest: str, uid: int | None) -> Path:
        return self._root / str(os.geteuid() if uid is None else uid) / digest

    def _take(self, asked: Archive) -> ArchiveTaken:
        folder, part = self._folder(asked.digest, asked.uid), self._root / f"{asked.digest}.part"
        note = folder.with_name(f".{folder.name}.used")
        for above in (self._root, folder.parent):
            above.mkdir(mode=0o711, parents=True, exist_ok=True)
        if folder.is_dir():
            note.touch()
            return ArchiveTaken(folder=str(folder))
        has = part.stat().st_size if part.exists() else 0
        if asked.data and asked.offset == has:
            with part.open("ab") as file:
                file.write(asked.data)
            has += len(asked.data)
        if has < asked.size:
            return ArchiveTaken(has=has)
        try:
            if hashlib.sha256(part.read_bytes()).hexdigest() != asked.digest:
                raise ArchiveError("it came damaged")
            unpack(part, folder, uid=asked.uid, gid=asked.gid)
        finally:
            part.unlink()
        note.write_text(_newest(folder))
        return ArchiveTaken(folder=str(folder))


def _newest(folder: Path) -> str:
    """Another text once somebody has written there; what Python caches does not count."""
    newest = 0
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            newest = max(newest, Path(above, name).lstat().st_ctime_ns)
    return str(newest)
