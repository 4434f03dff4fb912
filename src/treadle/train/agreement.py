"""Whether the ranks still do the same: a script may count in variables of its own."""

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch.optim import Optimizer

from treadle.train.group import BrokenGroupError

if TYPE_CHECKING:
    from treadle.train.session import Run

FIRST, EVERY = 4, 32  # backward passes after a change of the group
MODULUS = 65_521  # sums of up to 256 ranks are exact in float32


class Agreement:
    """Compares, now and then, how many steps were applied and with which settings."""

    def __init__(self, run: "Run", instead: str) -> None:
        """instead: what the script should do."""
        self._run, self._instead = run, instead
        self._version = -1
        self._count = 0

    def broken(self, optimizers: Iterable[Optimizer]) -> str:
        """What is not the same on all ranks; empty if all is."""
        run = self._run
        version = run.elastic.version if run.elastic else 0
        if version != self._version:
            self._version, self._count = version, 0
        self._count += 1
        if self._count > FIRST and self._count % EVERY:
            return ""
        mine = self._digest(optimizers)
        total = torch.tensor([float(mine)], device=run.device)
        try:
            run.group.finish([run.group.start_sum(total)])
        except BrokenGroupError:
            return ""  # The next collective says so as well.
        if float(total) == float(mine * run.size):
            return ""
        return (
            f"the ranks differ after step {run.position.applied} in the steps applied or in the "
            "settings of the optimizer (learning rate, ...): the script computes them from a "
            f"variable of its own, which a newcomer does not have; {self._instead}"
        )

    def _digest(self, optimizers: Iterable[Optimizer]) -> int:
        settings = [
            sorted(
                (name, repr(value))
                for name, value in group.items()
                if isinstance(value, int | float | tuple)
            )
            for optimizer in optimizers
            for group in optimizer.param_groups
        ]
        text = f"{self._run.position.applied} {settings}"
        return zlib.crc32(text.encode()) % MODULUS
