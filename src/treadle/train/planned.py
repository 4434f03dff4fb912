"""The model and the optimizer of a run under its execution plan, which may change.

The script keeps its model and its optimizer: at a change of plan their contents are replaced, not
they. Parts of the model that the script keeps apart (`encoder = model.encoder`) are those of the
plan before.

A change between plans under which every rank has the whole model happens in place. Any other goes
through a folder, in memory or on a disk (sharded_state.py).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from treadle.core.errors import InvalidInputError
from treadle.core.live_plans import ModelSize, announced
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.train.group import BrokenGroupError
from treadle.train.offload import HostStep
from treadle.train.parallelize import (
    Blueprint,
    Parallel,
    blocks,
    parallelize,
    recompute,
    tensor_degree,
)
from treadle.train.sharded_state import bytes_of, load, save


class Planned:
    """What a plan changes of a run."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, device: torch.device, *, whole: str = ""
    ) -> None:
        """whole: why the model must not be split."""
        self.plan = DATA_PARALLEL
        self.failed: Callable[[RuntimeError], None] = lambda _: None  # a call of a split model
        self._model, self._optimizer, self._device = model, optimizer, device
        self._parallel: Parallel | None = None
        self._host: HostStep | None = None
        self._undo_recompute: Callable[[], None] | None = None
        self._problem = whole  # why the model cannot be split
        self._blueprint: Blueprint | None = None
        self._names: list[list[str]] = []
        if whole:
            return
        names = {parameter: name for name, parameter in model.named_parameters()}
        try:
            self._names = [
                [names[each] for each in group["params"]] for group in optimizer.param_groups
            ]
            self._blueprint = Blueprint.of(model)
        except KeyError:
            self._problem = "its optimizer has parameters that are not the model's"
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            self._problem = f"it cannot be copied: {error}"

    def supports(self, plan: Plan) -> str:
        """Why the model cannot be trained under that plan; empty if it can."""
        if not plan.replicated and self._problem:
            return self._problem
        if self._blueprint is not None:
            return self._blueprint.supports(plan)
        return "" if blocks(self._model) or not plan.recompute else "it has no blocks"

    def can(self) -> tuple[str, ...]:
        """The plans that it supports, in the words of core/live_plans.py."""
        if self._blueprint is not None:
            return self._blueprint.can()
        return announced(shard=False, recompute=bool(blocks(self._model)), tensor=1, pipeline=1)

    def size(self, batch: int, sequence: int) -> ModelSize:
        """What a plan model needs to know of the model; rough where it does not say."""
        parts = [part for part in self._model.modules() if isinstance(part, nn.Linear)]
        widths = [part.in_features for part in parts] or [1]
        config = getattr(self._model, "config", None)
        heads = getattr(config, "num_attention_heads", 0) or tensor_degree(self._model)
        return ModelSize(
            parameters=max(1, sum(each.numel() for each in self._model.parameters())),
            batch=batch,
            sequence=sequence,
            hidden=getattr(config, "hidden_size", 0) or max(set(widths), key=widths.count),
            layers=max(1, len(blocks(self._model))),
            heads=max(1, heads),
        )

    @property
    def split(self) -> bool:
        """Whether the model is under a plan that leaves each rank with a part of it."""
        return self._parallel is not None

    @property
    def replicas(self) -> int | None:
        """Copies of the model; None: every rank has one."""
        return None if self._parallel is None else self._parallel.data

    @property
    def replica(self) -> int:
        return 0 if self._parallel is None else self._parallel.replica

    @property
    def bytes(self) -> int:
        """What the state of this rank takes."""
        return bytes_of(self._model, self._optimizer)

    # -- training ---------------------------------------------------------------------------------

    @contextmanager
    def passing(self, *, last: bool) -> Iterator[None]:
        """Around a backward pass; only the last one of a step averages gradients."""
        if self._parallel is None or last:
            yield
        else:
            with self._parallel.without_sync():
                yield

    def scale(self) -> float:
        """A loss is multiplied by this: gradients are averaged over replicas, and must be added."""
        return 1.0 if self._parallel is None else float(self._parallel.data)

    def agree(self, loss: Tensor, *flags: bool) -> list[Tensor]:
        """After the last backward: average gradients; the loss of all, and whether any rank has
        each flag.

        loss: this rank's part of it. Ranks of one replica have the same part.
        """
        assert self._parallel is not None
        size = dist.get_world_size() if dist.is_initialized() else 1
        part = loss.detach() * self._parallel.data / size
        said = torch.stack([part, *(loss.new_tensor(float(flag)) for flag in flags)])
        try:
            self._parallel.average_gradients()
            if size > 1:
                dist.all_reduce(said)
        except RuntimeError as error:
            raise BrokenGroupError(str(error)) from None
        return list(said)

    def clip(self, norm_max: float) -> None:
        """Scale the gradients so that the norm of all of them is at most this.

        BrokenGroupError: a rank of a split model is lost.
        """
        parameters = [each for each in self._model.parameters() if each.grad is not None]
        if self._parallel is None:
            nn.utils.clip_grad_norm_(parameters, norm_max)
            return
        world = dist.get_world_size() if dist.is_initialized() else 1
        holders = world // self.plan.pipeline  # ranks that have a parameter, or a part of it
        total = torch.zeros((), device=self._device)
        for each in parameters:
            gradient, parts = each.grad, 1
            if isinstance(gradient, DTensor):
                mesh = gradient.device_mesh
                for axis, placed in enumerate(gradient.placements):
                    # Shards have several classes: one over another has its own.
                    parts *= 1 if placed.is_replicate() else mesh.size(axis)
                gradient = gradient.to_local()
            assert gradient is not None
            total += gradient.float().square().sum() * (parts / holders)
        try:
            if world > 1:
                dist.all_reduce(total)
        except RuntimeError as error:
            raise BrokenGroupError(str(error)) from None
        factor = torch.clamp(norm_max / (total.sqrt() + 1e-6), max=1.0)
        for each in parameters:
            assert each.grad is not None
            local = each.grad.to_local() if isinstance(each.grad, DTensor) else each.grad
            local.mul_(factor)

    # -- changing ---------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """On all ranks of the group if the model is split, else on one of them."""
        try:
            save(folder, self._model, self._optimizer, together=self.split)
        except RuntimeError as error:
            if isinstance(error, dist.DistError) or "gloo" in str(error):
                raise BrokenGroupError(str(error)) from None
            raise

    def adapt(self, plan: Plan) -> None:
        """Another plan under which every rank has the whole model, and has it now."""
        self._check(plan)
        self._plain()
        if plan.recompute:
            self._undo_recompute = recompute(self._model)
        self._host = HostStep(self._optimizer) if plan.offload else None
        self.plan = plan

    def become(self, plan: Plan, folder: Path) -> None:
        """On all ranks of the new group: the state in that folder, under that plan."""
        self._check(plan)
        self._plain()
        assert self._blueprint is not None
        fresh = self._blueprint.build(self._device)
        if plan.replicated:
            self._parallel = None
            _take_over(self._model, fresh)
        else:
            parallel = parallelize(self._blueprint, plan, self._device, pristine=fresh)
            _stand_for(self._model, fresh, parallel.call, self._fail)
            self._parallel = parallel
        self._point_at_parameters()
        load(folder, self._model, self._optimizer, together=dist.is_initialized())
        if plan.replicated:
            self.adapt(plan)
        else:
            self._host = HostStep(self._optimizer) if plan.offload else None
            self.plan = plan

    def _check(self, plan: Plan) -> None:
        problem = self.supports(plan)
        added = len(self._optimizer.param_groups) - len(self._names)
        if not problem and added and (self.split or not plan.replicated):
            problem = f"{added} parameter groups were added to its optimizer after run.prepare"
        if problem:
            raise InvalidInputError(
                f"the model cannot be trained under the plan {plan.text!r}: {problem}"
            )

    def _plain(self) -> None:
        """Take back what a plan did to the model and the optimizer in place."""
        if self._undo_recompute is not None:
            self._undo_recompute()
        if self._host is not None:
            self._host.remove()
        self._undo_recompute = self._host = None

    def _point_at_parameters(self) -> None:
        """Give the optimizer the parameters of the model as it is now; its state comes after."""
        new = dict(self._model.named_parameters())
        self._optimizer.state.clear()
        for group, names in zip(self._optimizer.param_groups, self._names, strict=True):
            group["params"] = [new[name] for name in names if name in new]

    def _fail(self, error: RuntimeError) -> NoReturn:
        self.failed(error)
        raise error


class _StandIn(nn.Module):
    """What the script calls where the model is split: its attributes and the names of its
    parameters are there, and a call goes to the model under its plan."""

    def forward(self, *inputs: Any, **named: Any) -> Any:  # noqa: ANN401
        try:
            return self.__dict__["_call"](*inputs, **named)
        except RuntimeError as error:
            self.__dict__["_failed"](error)


# What belongs to a module itself and not to what it stands for: torch's hooks would run twice.
_OWN = frozenset(name for name in nn.Module().__dict__ if "hook" in name)


def _stand_for(
    model: nn.Module,
    split: nn.Module,
    call: nn.Module,
    failed: Callable[[RuntimeError], NoReturn],
) -> None:
    kind = next(each for each in type(split).__mro__ if not issubclass(each, FSDPModule))
    model.__class__ = type(f"Split{kind.__name__}", (_StandIn, kind), {})
    model.__dict__.clear()
    nn.Module.__init__(model)
    # The same containers: both see every change of parameters.
    model.__dict__.update({k: v for k, v in split.__dict__.items() if k not in _OWN})
    model.__dict__.pop("forward", None)
    model.__dict__["_call"] = call
    model.__dict__["_failed"] = failed


def _take_over(model: nn.Module, fresh: nn.Module) -> None:
    """Make the script's model the fresh one."""
    model.__class__ = fresh.__class__
    model.__dict__.clear()
    model.__dict__.update(fresh.__dict__)
