"""Backward passes and steps of a script that knows nothing of the other ranks.

Gradients are added up over all ranks in `backward`. A step that must not be applied finds no
gradients: one of an epoch that is over, or of a batch that is done again.

Between two batches is a boundary, unless gradients wait for a later step: then the next batch
belongs to the same step. A step that was cut, since a member was lost, is done again from the
first batch after the last step.
"""

import io
import sys
from typing import Any, TextIO

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from treadle.report import report
from treadle.train.agreement import Agreement
from treadle.train.auto.epochs import Total
from treadle.train.auto.files import Files
from treadle.train.auto.made import Made
from treadle.train.auto.script_state import ScriptState
from treadle.train.auto.support import refuse, say
from treadle.train.stop import exit_now


class ScriptSteps(ScriptState):
    """What one process of such a run does between two boundaries."""

    def __init__(self, made: Made, files: Files, *, timeout_s: float) -> None:
        super().__init__(made, files, timeout_s=timeout_s)
        self._agreement = Agreement(
            self, "use a scheduler of torch, enumerate(loader) or the epoch"
        )
        self.loader: DataLoader[Any] | None = None  # of the pass that is under way
        self.index = 0  # of the batch that the script has
        self.catching_up = False  # the script passes what is already done
        self._stdout: TextIO | None = None  # what it prints to, while that is hidden
        self._whole = Total()
        self._told = 0  # the last step that was counted
        self._weight = 1.0
        self._inside = False  # of a backward pass: checkpointing calls it again
        self._backwards = 0
        self._pending = False  # gradients wait for a step
        self._skips = 0  # steps of this batch that are already applied
        self._stepped_by: dict[int, int] = {}  # optimizer -> backward passes before its last step
        self._stepped_now: dict[int, int] = {}  # optimizer -> steps since the last boundary
        self._hidden: list[tuple[Tensor, Tensor]] = []

    def weighted_backward(self, original: Any, tensors: Any, grads: Any, **options: Any) -> None:  # noqa: ANN401
        """`torch.autograd.backward` with the gradients added up over all ranks."""
        local = self.size == 1 or self.catching_up or self._void
        if self._inside or local or self.loader is None:
            if self.loader is not None and not self._inside:
                self._went(tensors)
            original(tensors, grads, **options)
            return
        sequence = list(tensors) if isinstance(tensors, tuple | list) else [tensors]
        given = list(grads) if isinstance(grads, tuple | list) else [grads] * len(sequence)
        weights = [
            torch.full_like(each, self._weight) if grad is None else grad * self._weight
            for each, grad in zip(sequence, given, strict=True)
        ]
        assert self._state is not None
        for parameter in self.made.parameters():
            if parameter.grad is not None:
                # It is the same on all ranks already, and is added up with the new part.
                parameter.grad.div_(self.size)
        self._went(sequence[0])
        self._gradients.begin(last=True)
        self._inside = True
        try:
            original(sequence, weights, **options)
        finally:
            self._inside = False
        with self._telling.stages.stage("sync"):
            self._agree()
        if not self._void and (what := self._agreement.broken(self.made.optimizers)):
            refuse(what)

    def _went(self, tensors: Any) -> None:  # noqa: ANN401
        self._backwards += 1
        self._pending = True
        loss = tensors[0] if isinstance(tensors, tuple | list) else tensors
        self._loss_sum = loss.detach().float().mean() * self._weight

    def before_step(self, optimizer: Optimizer) -> None:
        """Let a step that must not be applied find no gradients."""
        counts = self.size > 1 and not (self.catching_up or self._void)
        if counts and self._stepped_by.get(id(optimizer)) == self._backwards:
            refuse(
                f"{type(optimizer).__name__}.step() came without backward() before it; gradients "
                "that the script computes in another way cannot be added up"
            )
        if self._skips:
            self._skips -= 1
        elif self.warming or (self.loader and not (self.catching_up or self._void)):
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._hidden.append((parameter, parameter.grad))
                    parameter.grad = None
        self._hidden.append((torch.empty(0), torch.empty(0)))  # so that it is not empty

    def after_step(self, optimizer: Optimizer) -> None:
        hidden, self._hidden = self._hidden, []
        for parameter, grad in hidden[:-1]:
            parameter.grad = grad
        self._stepped_by[id(optimizer)] = self._backwards
        if hidden and (self.catching_up or self._void):
            return
        self._pending = False
        self._stepped_now[id(optimizer)] = self._stepped_now.get(id(optimizer), 0) + 1
        if not hidden and not self.warming:
            self.order.partial += 1
            self.position.applied += 1
            if self.elastic is not None:
                self.elastic.applied(self.position.applied)

    @property
    def outside(self) -> bool:
        """Whether a step would belong to no batch."""
        return self.loader is None and not (self.catching_up or self.warming)

    @property
    def void(self) -> bool:
        """Whether nothing of this batch counts."""
        return self.catching_up or self._void

    @property
    def suppressed(self) -> bool:
        """Whether steps of schedulers must not count now."""
        return self.void or bool(self._skips)

    def _account(self, following: int) -> None:
        """The script asks for the next batch: where to go on if the group changes here."""
        if self._void or self._pending:
            return
        if len(set(self._stepped_now.values())) > 1 or len(self._stepped_now) not in (
            0,
            len(self._stepped_by),
        ):
            refuse(
                "the script has several optimizers that do not step equally often; "
                "only those that all step for each batch can be moved in one piece"
            )
        self._stepped_now = {}
        self.position.offset, self.order.partial = following, 0
        applied, whole = self.position.applied, self._whole
        whole.account(applied, following, len(self.order.batches))
        if applied > self._told:
            self._telling.stepped(applied, whole.steps, self.rank)
        self._told = applied
        if self.rank == 0:
            report(applied, whole.steps, loss=self._loss_sum)

    def _may_change(self) -> bool:
        """At a boundary: whether the group changed. While gradients wait there is none."""
        broken = self._void or (self.elastic is not None and self.elastic.broken)
        if self._pending and not broken:
            return False
        if broken and self._notes and self._notes.older_has_ended(self.position.applied):
            say("an older member's script has ended, and this one counts otherwise: ended")
            exit_now(0)
        changed = self._boundary()
        if changed:
            self._void = self._pending = False
            self._stepped_now = {}
            self._skips = self.order.partial
        return changed

    def _catch_up(self, begins: bool) -> None:
        """While it catches up, the script prints nothing: its numbers mean nothing."""
        if self.catching_up and not begins:
            # Of batches that do not count, on this rank alone.
            for parameter in self.made.parameters():
                parameter.grad = None
            self._pending, self._stepped_now = False, {}
        self.catching_up = begins
        if begins and self._stdout is None:
            sys.stdout.flush()
            self._stdout, sys.stdout = sys.stdout, _Nowhere()
        elif not begins and self._stdout is not None:
            sys.stdout, self._stdout = self._stdout, None


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)
