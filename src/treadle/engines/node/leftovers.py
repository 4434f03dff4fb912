"""What attempts leave on disk: how large it is, and its removal.

Users may have written to these folders while the daemon of root removes them. So nothing is
followed: every folder is opened by its name within the folder that is open already, and never
through a link; what is on another file system is left alone. A checkpoint folder is only ever
removed by `rmdir`, which the kernel refuses unless the folder is empty.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.core.machine import Leftovers
from treadle.engines.node.attempt_folders import AttemptFolders, locked
from treadle.engines.node.checkpoint_folders import CheckpointFolders
from treadle.engines.node.output import pieces, ranks

# Of a job that goes on, folders of so many attempts are kept whether they have output or not.
NEWEST_KEPT = 20
DEPTH_MAX = 64  # of folders within an attempt's; each holds a file descriptor
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 512  # bytes in a unit of st_blocks


class LeftoverFolders:
    """Measures and removes the folders of attempts that are over."""

    def __init__(self, folders: AttemptFolders, checkpoints: CheckpointFolders) -> None:
        self._folders = folders
        self._checkpoints = checkpoints

    def tidy(self, job: JobId) -> Leftovers:
        """Remove its checkpoint folder if that is empty; what is left of its attempts."""
        emptied = self._remove_empty_checkpoints(job)
        return Leftovers(bytes=self._measured(job), checkpoint_folders=emptied)

    def discard(self, job: JobId) -> Leftovers:
        """Remove the folders of all its attempts; what was removed, as it was counted there."""
        emptied = self._remove_empty_checkpoints(job)
        freed = attempts = 0
        for attempt in self._folders.attempts(job):
            folder = self._folders.path(*attempt)
            if not self._is_over(attempt, folder):
                continue
            with suppress(OSError), _opened(folder.parent) as parent:
                freed += _remove(parent, folder.name)
                attempts += not os.path.lexists(folder)
        with suppress(OSError):  # not empty: something in it is not ours, or could not be removed
            self._folders.path(job, 1).parent.rmdir()
        return Leftovers(bytes=freed, attempts=attempts, checkpoint_folders=emptied)

    def thin(self, job: JobId) -> int:
        """Remove attempts of a job that goes on, which are over and have printed nothing; how many.

        A job may be lost as it begins again and again; its newest attempts stay.
        """
        removed = 0
        for attempt in self._folders.attempts(job)[:-NEWEST_KEPT]:
            folder = self._folders.path(*attempt)
            with suppress(OSError):
                if _is_silent(folder) and self._is_over(attempt, folder):
                    with _opened(folder.parent) as parent:
                        _remove(parent, folder.name)
                        removed += not os.path.lexists(folder)
        return removed

    def _is_over(self, attempt: AttemptId, folder: Path) -> bool:
        """Whether no supervisor has the attempt, nor may find it later."""
        if self._folders.ordered_by(*attempt) is not None:
            return False
        try:
            with locked(folder) as free:
                return free
        except OSError:  # A file with the name of the lock that cannot be opened.
            return True

    def _measured(self, job: JobId) -> int:
        total = 0
        for attempt in self._folders.attempts(job):
            folder = self._folders.path(*attempt)
            with suppress(OSError), _opened(folder.parent) as parent:
                total += _size(parent, folder.name)
        return total

    def _remove_empty_checkpoints(self, job: JobId) -> int:
        """Of every submission that had this number."""
        removed = 0
        for path in self._checkpoints.of(job):
            with suppress(OSError), _opened(path.parent) as parent:  # Not if it holds something.
                os.rmdir(path.name, dir_fd=parent)
                removed += 1
        self._checkpoints.forget(job)
        return removed


def _is_silent(folder: Path) -> bool:
    return not any(piece.size for rank in ranks(folder) for piece in pieces(folder, rank))


@contextmanager
def _opened(folder: Path | str, *, within: int | None = None) -> Iterator[int]:
    handle = os.open(folder, _FOLDER, dir_fd=within)
    try:
        yield handle
    finally:
        os.close(handle)


def _size(parent: int, name: str, *, depth: int = 0) -> int:
    """Bytes on disk of a file or folder, without following links."""
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    total = found.st_blocks * _BLOCK
    if not stat.S_ISDIR(found.st_mode) or depth >= DEPTH_MAX:
        return total
    with suppress(OSError), _opened(name, within=parent) as folder:
        for inner in os.listdir(folder):  # noqa: PTH208  (of an open folder)
            with suppress(OSError):
                total += _size(folder, inner, depth=depth + 1)
    return total


def _remove(parent: int, name: str, *, depth: int = 0) -> int:
    """Remove a file, a link itself or a folder; the bytes that it freed. What cannot be, stays."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        is_folder = stat.S_ISDIR(found.st_mode)
        freed = found.st_blocks * _BLOCK if is_folder or found.st_nlink == 1 else 0
        if not is_folder:
            os.unlink(name, dir_fd=parent)
            return freed
    except OSError:
        return 0
    if depth >= DEPTH_MAX:
        return 0
    inside = 0
    with suppress(OSError):
        with _opened(name, within=parent) as folder:
            if _mount(folder) != _mount(parent):
                return 0  # Something is mounted there, perhaps a folder of the same disk.
            # What was put there meanwhile has the same name; a link is not opened.
            for inner in os.listdir(folder):  # noqa: PTH208  (of an open folder)
                inside += _remove(folder, inner, depth=depth + 1)
        os.rmdir(name, dir_fd=parent)
        inside += freed
    return inside


def _mount(folder: int) -> bytes:
    """Which mount an open folder is in."""
    lines = Path(f"/proc/self/fdinfo/{folder}").read_bytes().splitlines()
    return next(line for line in lines if line.startswith(b"mnt_id:"))
