"""Where the time of a step goes, and what Treadle is told of a run: steps, loss and stages."""

import os
from collections.abc import Iterator
from time import monotonic
from typing import TypeVar

import torch

from treadle.report import report
from treadle.train.stages import Stages

EVERY_S = 1.0

Thing = TypeVar("Thing")


class Telling:
    """Of one rank; only rank 0 tells."""

    def __init__(self, device: torch.device) -> None:
        self.stages = Stages(device)
        self._told_at = monotonic()

    def loaded(self, batches: Iterator[Thing]) -> Iterator[Thing]:
        """The same batches; waiting for them is the stage `load`."""
        while True:
            self.stages.enter("load")
            batch = next(batches, None)
            self.stages.enter(None)
            if batch is None:
                return
            yield batch

    def stepped(self, step: int, total: int | None, rank: int) -> None:
        """A step is applied."""
        self.stages.step_done()
        if rank == 0 and monotonic() - self._told_at >= EVERY_S:
            self.tell(step, total)

    def tell(self, step: int, total: int | None, loss: float | None = None) -> None:
        self._told_at = monotonic()
        times = self.stages.times()
        stages: dict[str, float] = {}  # The group is new: what was said of another counts no more.
        if times is not None:
            stages = {**times.seconds, "step": times.step_s}
        report(step, total, loss=loss, stages=stages)

    def regrouped(self, rank: int, size: int) -> None:
        """The group is another."""
        self.stages.forget()
        # The script and its reports go by these, and the rank may be another now.
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size)}
