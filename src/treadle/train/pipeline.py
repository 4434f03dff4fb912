"""A model whose blocks are spread over devices, called like any other.

    outputs = pipeline(inputs)      on every rank of the pipeline, with the same inputs
    loss_fn(outputs, labels).backward()

The inputs are cut into micro-batches. Forward, each rank receives a micro-batch from the rank
before, computes its blocks and sends the result on, so that the ranks work on different ones at a
time (GPipe). The last rank sends the outputs to all, and every rank can compute the loss. Backward,
gradients travel the other way. Nothing of the schedule is in the user's loop.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx


class Place(NamedTuple):
    """Where this rank is in its pipeline."""

    group: "dist.ProcessGroup"
    stage: int
    ranks: tuple[int, ...]  # of the whole job, in order

    @property
    def first(self) -> bool:
        return self.stage == 0

    @property
    def last(self) -> bool:
        return self.stage == len(self.ranks) - 1


class Pipeline(nn.Module):
    """The blocks of one rank, with the way to its neighbours."""

    def __init__(self, blocks: nn.Module, place: Place, micro_batches: int) -> None:
        super().__init__()
        self.blocks = blocks
        self._place = place
        self._micro = micro_batches

    def forward(self, inputs: Tensor) -> Tensor:
        pieces = inputs.chunk(min(self._micro, len(inputs)))
        run = _Run(self.blocks, self._place)
        # An input that needs a gradient, so that backward comes by on every rank.
        anchor = torch.zeros((), device=inputs.device, requires_grad=torch.is_grad_enabled())
        return _Through.apply(anchor, run, pieces)  # type: ignore[no-any-return, no-untyped-call]


class _Run:
    """One pass of all micro-batches through the blocks of this rank."""

    def __init__(self, blocks: nn.Module, place: Place) -> None:
        self._blocks, self._place = blocks, place
        self._inputs: list[Tensor] = []
        self._outputs: list[Tensor] = []

    def forward(self, pieces: Sequence[Tensor], *, grad: bool) -> Tensor:
        place, results = self._place, []
        sent: list[Any] = []
        for piece in pieces:
            given = piece if place.first else _receive(place, place.stage - 1, piece.device)
            given = given.detach().requires_grad_(grad and given.is_floating_point())
            with torch.set_grad_enabled(grad):
                result = self._blocks(given)
            if grad:
                self._inputs.append(given)
                self._outputs.append(result)
            results.append(result.detach())
            if not place.last:
                sent += _send(place, place.stage + 1, results[-1])
        whole = torch.cat(results) if place.last else None
        for work in sent:
            work.wait()
        return _to_all(place, whole, pieces[0].device)

    def backward(self, gradient: Tensor) -> None:
        place = self._place
        sizes = [len(output) for output in self._outputs]
        pieces = torch.split(gradient, sizes) if place.last else [gradient] * len(sizes)
        sent: list[Any] = []
        for given, output, piece in zip(self._inputs, self._outputs, pieces, strict=True):
            arrived = piece if place.last else _receive(place, place.stage + 1, output.device)
            torch.autograd.backward(output, arrived)
            if not place.first:
                assert given.grad is not None
                sent += _send(place, place.stage - 1, given.grad)
        for work in sent:
            work.wait()
        self._inputs, self._outputs = [], []


class _Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, anchor: Tensor, run: _Run, pieces: Sequence[Tensor]) -> Tensor:
        ctx.run = run  # type: ignore[attr-defined]
        return run.forward(pieces, grad=anchor.requires_grad)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None, None]:
        ctx.run.backward(gradient)  # type: ignore[attr-defined]
        return torch.zeros((), device=gradient.device), None, None


# -- messages between neighbours -----------------------------------------------------------------
# A tensor is preceded by its shape and type: micro-batches may differ in size.

TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64)
SHAPE_MAX = 7


def _header(tensor: Tensor, device: torch.device) -> Tensor:
    numbers = [TYPES.index(tensor.dtype), tensor.dim(), *tensor.shape]
    return torch.tensor(numbers + [0] * (2 + SHAPE_MAX - len(numbers)), device=device)


def _empty(header: Tensor) -> Tensor:
    kind, dim, *shape = header.tolist()
    return torch.empty(shape[:dim], dtype=TYPES[kind], device=header.device)


def _send(place: Place, stage: int, tensor: Tensor) -> list[Any]:
    to, whole = place.ranks[stage], tensor.contiguous()
    return [
        dist.isend(_header(whole, whole.device), to, group=place.group),
        dist.isend(whole, to, group=place.group),
    ]


def _receive(place: Place, stage: int, device: torch.device) -> Tensor:
    source = place.ranks[stage]
    header = torch.zeros(2 + SHAPE_MAX, dtype=torch.int64, device=device)
    dist.recv(header, source, group=place.group)
    found = _empty(header)
    dist.recv(found, source, group=place.group)
    return found


def _to_all(place: Place, whole: Tensor | None, device: torch.device) -> Tensor:
    """The outputs of the last rank, on every rank."""
    source = place.ranks[-1]
    header = torch.zeros(2 + SHAPE_MAX, dtype=torch.int64, device=device)
    if whole is not None:
        header = _header(whole, device)
    dist.broadcast(header, source, group=place.group)
    found = _empty(header) if whole is None else whole.contiguous()
    dist.broadcast(found, source, group=place.group)
    return found
