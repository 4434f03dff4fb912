"""Applies an execution plan to a model: how it is split, sharded, recomputed and off-loaded.

    blueprint = Blueprint.of(model)                      # structure without weights
    parallel = parallelize(blueprint, plan, device)      # a fresh model under that plan
    load(parallel, ...)                                  # sharded_state.py

A model that was changed for one plan cannot be changed back, so every plan begins from the
blueprint. Names of parameters are the same under every plan; that is what lets weights move between
plans. Ranks are laid out with tensor parallelism innermost (its messages are the most), then data,
then pipeline.

| plan | what is used |
|---|---|
| data | an all-reduce of gradients; a run that has no other plan does it during backward |
| shard | FSDP2: "all" gives back parameters after forward, "gradients" and "optimizer" keep them |
| tensor | torch.distributed.tensor.parallel, by the model's own plan (tensor_plans.py) |
| pipeline | GPipe over the blocks of a sequence (pipeline.py) |
| recompute | torch.utils.checkpoint around each block |
| offload | the optimizer on the host (offload.py) |
| accumulate | batches are cut so (data.py); in a pipeline, its micro-batches |
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

from treadle.core.errors import InvalidInputError
from treadle.core.live_plans import announced
from treadle.core.plan import Plan
from treadle.train.pipeline import Pipeline, Place
from treadle.train.tensor_plans import tensor_plan

MICRO_BATCHES = 4  # for each stage of a pipeline
BLOCKS = ("blocks", "layers", "h", "layer")  # names that lists of blocks have


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A model without its weights; buffers are kept, since not all of them are saved."""

    model: nn.Module

    @classmethod
    def of(cls, model: nn.Module) -> "Blueprint":
        memo: dict[int, Any] = {}
        for each in model.parameters():
            empty = torch.empty_like(each, device="meta")
            memo[id(each)] = nn.Parameter(empty, requires_grad=each.requires_grad)
        return cls(copy.deepcopy(model, memo))

    def build(self, device: torch.device) -> nn.Module:
        """A model with weights that are not set yet."""
        memo: dict[int, Any] = {}
        for each in self.model.parameters():
            empty = torch.empty_like(each, device=device)
            memo[id(each)] = nn.Parameter(empty, requires_grad=each.requires_grad)
        return copy.deepcopy(self.model, memo).to(device)

    def supports(self, plan: Plan) -> str:
        """Why the plan cannot be applied to this model; empty if it can."""
        degree = tensor_degree(self.model)
        if plan.tensor > 1 and degree == 0:
            return "it names no weights that may be split (see `tensor_plan`)"
        if plan.tensor > 1 and degree % plan.tensor:
            return f"the weights that may be split have {degree} parts"
        if plan.pipeline > 1 and _sequence(self.model) is None:
            return "it is no sequence of blocks (nn.Sequential), so it cannot be cut into stages"
        if plan.pipeline > 1 and len(_sequence(self.model) or ()) < plan.pipeline:
            return f"it has fewer blocks than the {plan.pipeline} stages of the plan"
        if plan.recompute and not blocks(self.model):
            return "no blocks were found in it that could be recomputed"
        return ""

    def can(self) -> tuple[str, ...]:
        """The plans that the model supports, in the words of core/live_plans.py."""
        return announced(
            shard=True,
            recompute=bool(blocks(self.model)),
            tensor=tensor_degree(self.model),
            pipeline=len(_sequence(self.model) or ()),
        )


@dataclass(slots=True)
class Parallel:
    """A model under a plan, on this rank."""

    plan: Plan
    whole: nn.Module  # the part that this rank has, under the names of the whole model
    call: nn.Module  # what is called
    data: int  # replicas of the model
    replica: int  # which one this rank belongs to
    reduce_over: "dist.ProcessGroup | None" = None  # gradients are averaged by hand

    def __call__(self, *inputs: Any, **named: Any) -> Any:  # noqa: ANN401
        return self.call(*inputs, **named)

    @contextmanager
    def without_sync(self) -> Iterator[None]:
        """Backward without averaging gradients over replicas: not the last micro-batch."""
        if not isinstance(self.whole, FSDPModule):
            yield
            return
        self.whole.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.whole.set_requires_gradient_sync(True)

    def average_gradients(self) -> None:
        """Where nothing else does it: once, after the last backward of a step."""
        if self.reduce_over is None:
            return
        gradients = [_local(each.grad) for each in self.whole.parameters() if each.grad is not None]
        works = [dist.all_reduce(each, group=self.reduce_over, async_op=True) for each in gradients]
        for work, gradient in zip(works, gradients, strict=True):
            if work is not None:
                work.wait()
            gradient.div_(self.data)


def parallelize(
    blueprint: Blueprint, plan: Plan, device: torch.device, *, pristine: nn.Module | None = None
) -> Parallel:
    """The model under that plan for this rank of the default process group.

    pristine: use this model instead of a fresh one; its weights are kept.
    """
    size = dist.get_world_size() if dist.is_initialized() else 1
    if not plan.fits(size):
        raise InvalidInputError(f"the plan {plan} does not fit {size} devices")
    if problem := blueprint.supports(plan):
        raise InvalidInputError(f"the model cannot be trained under {plan}: {problem}")
    data = size // (plan.tensor * plan.pipeline)
    model = pristine if pristine is not None else blueprint.build(device)
    if size == 1:
        if plan.recompute:
            recompute(model)
        return Parallel(plan, model, model, 1, 0)
    shape, names = (plan.pipeline, data, plan.tensor), ("pipeline", "data", "tensor")
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
    _change(model, plan, mesh)
    over = mesh["data"].get_group() if data > 1 else None
    if plan.shard != "none" and data > 1:
        _shard(model, mesh["data"], keep=plan.shard != "all")
        over = None
    call: nn.Module = model
    if plan.pipeline > 1:
        micro = plan.accumulate if plan.accumulate > 1 else MICRO_BATCHES * plan.pipeline
        call = Pipeline(model, _place(mesh), micro)
    return Parallel(plan, model, call, data, mesh["data"].get_local_rank(), over)


# -- the parts of a plan --------------------------------------------------------------------------


def _change(model: nn.Module, plan: Plan, mesh: DeviceMesh) -> None:
    """What a plan changes inside a model; sharding comes after it, and replicas last."""
    if plan.pipeline > 1:
        _keep_stage(model, mesh["pipeline"].get_local_rank(), plan.pipeline)
    if plan.tensor > 1:
        _split(model, mesh["tensor"])
    if plan.recompute:
        recompute(model)


def _split(model: nn.Module, mesh: DeviceMesh) -> None:
    ways = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}
    plan = {name: ways[way]() for name, way in tensor_plan(model).items()}
    parallelize_module(model, mesh, plan)


def _shard(model: nn.Module, mesh: DeviceMesh, *, keep: bool) -> None:
    for block in blocks(model):
        fully_shard(block, mesh=mesh, reshard_after_forward=not keep)
    fully_shard(model, mesh=mesh, reshard_after_forward=not keep)


def recompute(model: nn.Module) -> Callable[[], None]:
    """Around `forward`, not around the module: names of parameters must stay.

    Returns what undoes it.
    """
    usual = [(block, block.__dict__.get("forward")) for block in blocks(model)]
    for block, _ in usual:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)

    def undo() -> None:
        for block, forward in usual:
            if forward is None:
                del block.forward
            else:
                block.forward = forward

    return undo


def _keep_stage(model: nn.Module, stage: int, stages: int) -> None:
    """Remove the blocks of other stages; those that stay keep their names."""
    sequence = _sequence(model)
    assert sequence is not None
    names = list(sequence._modules)
    first, last = (len(names) * edge // stages for edge in (stage, stage + 1))
    for name in names[:first] + names[last:]:
        del sequence._modules[name]


def _place(mesh: DeviceMesh) -> Place:
    part = mesh["pipeline"]
    ranks = tuple(int(rank) for rank in part.mesh.tolist())
    return Place(part.get_group(), part.get_local_rank(), ranks)


# -- what a model is made of ---------------------------------------------------------------------


def _sequence(model: nn.Module) -> nn.Sequential | None:
    return model if isinstance(model, nn.Sequential) else None


def tensor_degree(model: nn.Module) -> int:
    """What a tensor degree must divide; 0 if the model cannot be split so."""
    ways = tensor_plan(model)
    parts = dict(model.named_modules())
    sizes = [
        getattr(parts[name], "out_features" if way == "colwise" else "in_features")
        for name, way in ways.items()
    ]
    config = getattr(model, "config", None)
    heads = [getattr(config, name, 0) for name in ("num_attention_heads", "num_key_value_heads")]
    return gcd(*sizes, *(each for each in heads if each)) if sizes else 0


def blocks(model: nn.Module) -> list[nn.Module]:
    """The repeated parts of a model: those that are worth to shard or recompute one by one."""
    for name, part in model.named_modules():
        if isinstance(part, nn.ModuleList) and name.rpartition(".")[2] in BLOCKS and len(part):
            return list(part)
    if isinstance(model, nn.Sequential):
        return [part for part in model if any(True for _ in part.parameters())]
    return []


def _local(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
