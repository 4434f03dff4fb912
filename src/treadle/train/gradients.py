"""Gradients are added up over all ranks while the backward pass still runs.

Buckets are filled in the reverse order of the parameters and sent in that order on every rank,
each as soon as it is full. The model itself is not wrapped: it keeps its class, its methods and the
names of its parameters, and a change of the group touches nothing of it.

A parameter may get its gradient in several parts: one that reentrant checkpoints share, for one.
So the first pass in a group sends nothing before its end, and later ones neither if that was seen.

The last bucket also carries this step's loss, whether a rank was asked to stop, and which
parameters were used, so that all ranks agree on them without a collective of their own.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from treadle.core.errors import InvalidInputError
from treadle.train.group import BrokenGroupError, Group

BUCKET_BYTES = 8 << 20


class Bucket:
    """Parameters whose gradients travel together."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters = parameters
        sizes = sum(parameter.numel() for parameter in parameters)
        first = parameters[0]
        self.flat = torch.zeros(sizes, dtype=first.dtype, device=first.device)
        self.parts: list[Tensor] = []
        done = 0
        for parameter in parameters:
            part = self.flat.narrow(0, done, parameter.numel())
            self.parts.append(part.view(parameter.shape))
            done += parameter.numel()
        self.missing = len(parameters)

    def fill(self) -> None:
        for parameter, part in zip(self.parameters, self.parts, strict=True):
            if parameter.grad is None:
                part.zero_()
            else:
                part.copy_(parameter.grad)


class Gradients:
    """The sums of one model's gradients over a group."""

    def __init__(self, parameters: Iterable[Tensor], group: Group) -> None:
        self._all = list(parameters)
        self._trains = [p.requires_grad for p in self._all]
        self._parameters = [p for p in self._all if p.requires_grad]
        self._group = group
        self._buckets: list[Bucket] = []
        self._hooks: list[Any] = []
        self._active = False
        self._sent = 0
        self._had: set[int] = set()  # parameters that got a gradient in this pass
        self._in_parts = False  # some got theirs in parts: none is complete before the end
        self._overlaps = False  # with the backward pass
        self._works: list[dist.Work] = []
        self._error: BrokenGroupError | None = None
        self._tail = torch.zeros(0)

    def close(self) -> None:
        """Leave the parameters alone."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._buckets, self._works = [], [], []
        self._error, self._active = None, False
        self._overlaps = self._in_parts = False

    def rebuild(self) -> None:
        """After a change of the group: a group of one needs no hooks and pays nothing."""
        self.close()
        self._trains = [p.requires_grad for p in self._all]
        self._parameters = [p for p in self._all if p.requires_grad]
        if self._group.size == 1:
            return
        self._buckets = list(_buckets(reversed(self._parameters)))
        for index, bucket in enumerate(self._buckets):
            for parameter in bucket.parameters:
                hooked: Any = parameter
                self._hooks.append(
                    hooked.register_post_accumulate_grad_hook(partial(self._ready, index))
                )
        self._tail = torch.zeros(
            2 + len(self._parameters), dtype=torch.float32, device=self._group.device
        )

    def begin(self, *, last: bool) -> None:
        """Before a backward pass; only the last one of a step sends."""
        # Scripts freeze and thaw parts of a model; all ranks do it at the same step.
        if self._group.size > 1 and self._trains != [p.requires_grad for p in self._all]:
            self.rebuild()
        self._active = last and self._group.size > 1
        self._sent, self._error, self._works = 0, None, []
        self._had.clear()
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters)

    def finish(self, loss: Tensor, stop: bool) -> tuple[Tensor, Tensor]:
        """After the last backward pass: the loss of the whole batch, and whether any rank stops.

        Both are still on the device: to read them waits for it.
        """
        if self._group.size == 1:
            return loss, torch.tensor(float(stop))
        self._send_full(all_of_them=True)
        used = [float(parameter.grad is not None) for parameter in self._parameters]
        if all(used):
            self._tail[2:].fill_(1.0)  # The usual case needs no copy to the device.
        else:
            self._tail[2:] = torch.tensor(used)
        self._tail[0], self._tail[1] = loss, float(stop)
        works, self._works = self._works, []
        if self._error is not None:
            raise self._error
        works.append(self._group.start_sum(self._tail))
        self._group.finish(works)
        self._active, self._overlaps = False, not self._in_parts
        self._take(used)
        return self._tail[0].clone(), self._tail[1].clone()

    def _ready(self, index: int, parameter: Tensor) -> None:
        """A gradient is complete (called by autograd)."""
        if not self._active:
            return
        if parameter.grad is not None and parameter.grad.is_sparse:
            raise InvalidInputError("sparse gradients cannot be added up; use sparse=False")
        if id(parameter) in self._had:
            self._in_parts = True
            if index < self._sent:
                raise InvalidInputError(
                    "a parameter got a gradient again after it was added up over all ranks; "
                    "checkpoint with use_reentrant=False"
                )
            return
        self._had.add(id(parameter))
        self._buckets[index].missing -= 1
        if self._overlaps:
            self._send_full()

    def _send_full(self, *, all_of_them: bool = False) -> None:
        while self._sent < len(self._buckets) and self._error is None:
            bucket = self._buckets[self._sent]
            if bucket.missing and not all_of_them:
                return
            bucket.fill()
            try:
                self._works.append(self._group.start_sum(bucket.flat))
            except BrokenGroupError as error:
                self._error = error  # not through autograd: `finish` raises it
                return
            self._sent += 1

    def _take(self, used: list[float]) -> None:
        """Put the sums back; a parameter that no rank used has no gradient, as on one device."""
        used_by_any = self._tail[2:].tolist() if not all(used) else used
        any_use = dict(zip(map(id, self._parameters), used_by_any, strict=True))
        for bucket in self._buckets:
            for parameter, part in zip(bucket.parameters, bucket.parts, strict=True):
                if parameter.grad is not None:
                    parameter.grad.copy_(part)
                elif any_use[id(parameter)]:
                    parameter.grad = part.clone()


def _buckets(parameters: Iterable[Tensor]) -> Iterable[Bucket]:
    """Of one dtype and device each, and not larger than they need to be to travel well."""
    waiting: list[Tensor] = []
    size = 0
    for parameter in parameters:
        other = waiting and (waiting[0].dtype, waiting[0].device) != (
            parameter.dtype,
            parameter.device,
        )
        if waiting and (other or size >= BUCKET_BYTES):
            yield Bucket(waiting)
            waiting, size = [], 0
        waiting.append(parameter)
        size += parameter.numel() * parameter.element_size()
    if waiting:
        yield Bucket(waiting)
