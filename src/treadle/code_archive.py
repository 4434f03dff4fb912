"""The code of a job as one file: packed where it is submitted, unpacked once on a node.

It is named by the SHA-256 of its content. The packer runs as the job's user, so that it reads what
that user may read, and is ended if the folder does not answer.
"""

import hashlib
import os
import shutil
import sys
import tarfile
import threading
from pathlib import Path, PurePosixPath

from treadle import code_packer
from treadle.code_packer import leads_out
from treadle.repository import User, kill, started

BYTES_MAX = 256 << 20
WITHIN_S = 60.0
_CHUNK, _PROBLEM_MAX = 1 << 20, 4096  # bytes


class ArchiveError(Exception):
    """Why a folder cannot be packed, or an archive not unpacked."""


def packed(folder: str, into: Path, *, user: User | None = None, bytes_max: int = BYTES_MAX) -> str:
    """Pack a folder into a file in another one; the name of the file."""
    command = (sys.executable, "-I", "-S", code_packer.__file__, folder, str(bytes_max))
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    process = started(command, user, {})
    timer = threading.Timer(WITHIN_S, kill, [process])
    timer.start()
    draft = into / f".{process.pid}.part"
    try:
        with process, draft.open("wb") as file:
            assert process.stdout is not None
            problem = process.stdout.readline(_PROBLEM_MAX).decode(errors="replace").strip()
            content = hashlib.sha256()
            while not problem and (data := process.stdout.read(_CHUNK)):
                content.update(data)
                file.write(data)
                if file.tell() > 2 * bytes_max:
                    problem = "its archive does not end"
            if problem:
                kill(process)
        if problem or process.returncode:
            raise ArchiveError(problem or f"it was not read within {WITHIN_S:g} s")
        draft.replace(into / content.hexdigest())
        return content.hexdigest()
    finally:
        timer.cancel()
        draft.unlink(missing_ok=True)


def unpack(archive: Path, folder: Path, *, uid: int | None, gid: int | None) -> None:
    """Make a folder of it, which appears at once; uid: whose it is, if that is another user."""
    draft = folder.with_name(f".{folder.name}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    try:
        _unpack(archive, draft)
        if uid is not None and os.geteuid() == 0:
            # From below: the user can enter nothing of it before all of it is the user's.
            for above, folders, files in os.walk(draft, topdown=False):
                for name in (*folders, *files, "."):
                    os.chown(
                        Path(above, name), uid, -1 if gid is None else gid, follow_symlinks=False
                    )
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _unpack(archive: Path, draft: Path) -> None:
    """Links come last, so that nothing is written through one."""
    links: list[tuple[Path, str]] = []
    with tarfile.open(archive, "r:") as entries:
        for entry in entries:
            name = PurePosixPath(entry.name)
            path = draft / name
            if name.is_absolute() or ".." in name.parts or not name.parts:
                raise ArchiveError(f"it has the path {entry.name!r}")
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            content = entries.extractfile(entry) if entry.isreg() and not entry.issparse() else None
            if content is not None:
                with path.open("xb") as file:
                    shutil.copyfileobj(content, file)
                path.chmod(entry.mode & 0o755)
                os.utime(path, (entry.mtime, entry.mtime))
            elif entry.issym() and not leads_out(str(name), entry.linkname):
                links.append((path, entry.linkname))
            else:
                raise ArchiveError(f"it has {entry.name!r}, which is no file, or leads out of it")
    for path, target in links:
        path.symlink_to(target)
