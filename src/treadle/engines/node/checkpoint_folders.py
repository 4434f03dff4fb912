"""The folder in which each job keeps its checkpoints: `<root>/checkpoints/<job>-<submission>/`.

It belongs to the job's user. Treadle makes it and never deletes it. The nonce of the submission is
in its name: a later job that gets the same number, in a new or a restored store, must not resume
from the checkpoints of the earlier one.
"""

import os
from pathlib import Path

from treadle.core.job import JobId
from treadle.core.launch import Launch


class CheckpointFolders:
    """The checkpoint folders of all jobs under one root."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, job: JobId, submission: str = "") -> Path:
        return self._root / "checkpoints" / (f"{job}-{submission}" if submission else job)

    def make(self, launch: Launch) -> Path:
        """Make the folder, for the user who runs the job alone."""
        folder = self.path(launch.job, launch.submission)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0 and launch.uid:
            # Other users may pass through to their own folder, and list nothing on the way.
            for passage in (self._root, folder.parent):
                passage.chmod(0o711)
            gid = -1 if launch.gid is None else launch.gid
            os.chown(folder, launch.uid, gid, follow_symlinks=False)
        return folder
