"""Writes checkpoints beside the training: it stands still only while the state is copied.

One checkpoint is in flight at a time. One that is due while the last is still being written, since
the disk is slow, comes when that is done.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from treadle.train.checkpoint import Checkpoints


class CheckpointWriter:
    """The checkpoints of one run, written by a thread."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._thread: threading.Thread | None = None
        self._saved: int | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def write(self, step: int, content: Callable[[], dict[str, Any]]) -> None:
        """content: gives what is saved; it does not change while training goes on."""
        self._begin(step, lambda: self._checkpoints.save(step, content()))

    def write_parts(self, step: int, parts: Path, rest: Callable[[], dict[str, Any]]) -> None:
        """parts: a folder that is complete, and this writer's from now on."""
        self._begin(step, lambda: self._checkpoints.save_parts(step, parts, rest()))

    def wait(self) -> None:
        """Until the one in flight is on the disk, or failed."""
        if self._thread is not None:
            self._thread.join()

    def taken(self) -> int | None:
        """The step of a checkpoint that was completed since the last question."""
        saved, self._saved = self._saved, None
        return saved

    def _begin(self, step: int, save: Callable[[], object]) -> None:
        self.wait()
        self._thread = threading.Thread(
            target=self._run, args=(step, save), name="treadle-checkpoint", daemon=True
        )
        self._thread.start()

    def _run(self, step: int, save: Callable[[], object]) -> None:
        """A disk that is full costs the checkpoint, not the training."""
        try:
            save()
        except OSError as error:
            sys.stderr.write(f"no checkpoint at step {step}: {error}\n")
        else:
            self._saved = step
