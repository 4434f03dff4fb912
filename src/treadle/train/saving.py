"""When a run writes checkpoints, and what goes into them."""

import os
import sys
from pathlib import Path
from time import monotonic

import torch

from treadle.report import report
from treadle.train import carry
from treadle.train.checkpoint import IN_USE, own_checkpoints, place
from treadle.train.checkpoint_writer import CheckpointWriter
from treadle.train.group import Group
from treadle.train.planned import Planned
from treadle.train.state import State, frozen


class Saving:
    """The checkpoints of one run."""

    def __init__(self, group: Group, every_s: float) -> None:
        # Without Treadle, a folder that lies there is perhaps of another run: none is used.
        named = "TREADLE_CHECKPOINT_DIR" in os.environ
        self.checkpoints = own_checkpoints() if named else None
        self._writer = CheckpointWriter(self.checkpoints) if self.checkpoints else None
        if named:
            IN_USE.add(place())
        self._group = group
        self._every_s = every_s
        self._saved_at = monotonic()

    @property
    def due(self) -> bool:
        """Whether the next checkpoint should be written; the first rank's answer counts."""
        writer = self._writer
        if writer is None or writer.busy or self._group.rank != 0:
            return False
        return monotonic() - self._saved_at > self._every_s

    def save(self, state: State, planned: Planned, device: torch.device, *, wait: bool) -> None:
        """Write one: on all ranks together if the model is split, else it is the first rank's.

        wait: until it is on the disk, since the process ends after it.
        """
        self._saved_at = monotonic()
        writer, step = self._writer, state.position.applied
        if writer is None or (self._group.rank != 0 and not planned.split):
            return
        if wait:
            writer.wait()
        if planned.split:
            try:
                # A change may come before it is written: its folder has a name of its own.
                parts = carry.write(f"save-{step}", planned, state.rest(device), self._group)
            except OSError as error:
                sys.stderr.write(f"no checkpoint at step {step}: {error}\n")
                return
            if self._group.rank == 0:
                writer.write_parts(step, Path(parts), frozen(state.rest(device)))
        else:
            writer.write(step, frozen(state.read(device)))
        if wait:
            self.finish(step)

    def tell(self, applied: int) -> None:
        """Report a checkpoint that is complete by now."""
        if self._writer is not None and (step := self._writer.taken()) is not None:
            report(applied, checkpoint=step)

    def finish(self, applied: int) -> None:
        """Until the one in flight is on the disk."""
        if self._writer is not None:
            self._writer.wait()
            self.tell(applied)
