"""The folder in which each job keeps its checkpoints: `<root>/checkpoints/<job>-<submission>/`.

It belongs to the job's user. Treadle makes it, and removes it only if it is empty when the job has
ended (`leftovers.py`). The nonce of the submission is in its name: a later job that gets the same
number, in a new or a restored store, must not resume from the checkpoints of the earlier one.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

from treadle.core.job import JobId
from treadle.core.launch import Launch


def folder_name(job: JobId, submission: str) -> str:
    return f"{job}-{submission}" if submission else job


def is_of(name: str, job: JobId) -> bool:
    """Whether a folder is that of a submission which had this number."""
    return re.fullmatch(rf"{re.escape(job)}(-[0-9a-z]+)?", name, re.ASCII) is not None


class CheckpointFolders:
    """The checkpoint folders of all jobs under one root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made: dict[JobId, set[Path]] = {}  # by this process; of other jobs the disk is asked

    def path(self, job: JobId, submission: str = "") -> Path:
        return self._root / "checkpoints" / folder_name(job, submission)

    def of(self, job: JobId) -> list[Path]:
        """The folders of all submissions that had this number."""
        if job in self._made:  # The folder of all has an entry for each job that keeps checkpoints.
            return sorted(self._made[job])
        with suppress(FileNotFoundError):
            return [path for path in self.path(job).parent.iterdir() if is_of(path.name, job)]
        return []

    def forget(self, job: JobId) -> None:
        """The job has ended; should its folders be wanted again, the disk is asked."""
        self._made.pop(job, None)

    def make(self, launch: Launch) -> Path:
        """Make the folder, for the user who runs the job alone."""
        folder = self.path(launch.job, launch.submission)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._made.setdefault(launch.job, set()).add(folder)
        if os.geteuid() == 0 and launch.uid:
            # Other users may pass through to their own folder, and list nothing on the way.
            for passage in (self._root, folder.parent):
                passage.chmod(0o711)
            gid = -1 if launch.gid is None else launch.gid
            os.chown(folder, launch.uid, gid, follow_symlinks=False)
        return folder
