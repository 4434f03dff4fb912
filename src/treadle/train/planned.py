"""The model and the optimizer of a run under its execution plan, which may change.

The script keeps its model and its optimizer: at a change of plan their contents are replaced, not
they. Parts of the model that the script keeps apart (`encoder = model.encoder`) are those of the
plan before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.optim import Optimizer

from treadle.core.plan import Plan
from treadle.train.offload import HostStep
from treadle.train.parallelize import Blueprint, Parallel, parallelize
from treadle.train.sharded_state import load, save

STATE = "state"


def only_data(plan: Plan) -> bool:
    """Whether every rank has all of the model, so that any rank can give its state to others."""
    return plan.tensor == 1 and plan.pipeline == 1 and plan.shard == "none"


class Planned:
    """What a plan changes of a run."""

    def __init__(self, model: nn.Module, optimizer: Optimizer, device: torch.device) -> None:
        self.plan = Plan()
        self._model, self._optimizer, self._device = model, optimizer, device
        self._blueprint = Blueprint.of(model)
        names = {parameter: name for name, parameter in model.named_parameters()}
        self._names = [
            [names[each] for each in group["params"]] for group in optimizer.param_groups
        ]
        self._parallel: Parallel | None = None
        self._host: HostStep | None = None

    def supports(self, plan: Plan) -> str:
        """Why the model cannot be trained under that plan; empty if it can."""
        return self._blueprint.supports(plan)

    @property
    def replicas(self) -> int | None:
        """Copies of the model; None: every rank has one."""
        return None if self._parallel is None else self._parallel.data

    @property
    def replica(self) -> int:
        return 0 if self._parallel is None else self._parallel.replica

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

    def agree(self, loss: Tensor, stop: bool) -> tuple[Tensor, Tensor]:
        """After the last backward: average gradients; the loss of all, and whether any rank stops.

        loss: this rank's part of it. Ranks of one replica have the same part.
        """
        assert self._parallel is not None
        self._parallel.average_gradients()
        size = dist.get_world_size() if dist.is_initialized() else 1
        said = torch.stack([loss.detach() * self._parallel.data / size, loss.new_tensor(stop)])
        if size > 1:
            dist.all_reduce(said)
        return said[0], said[1]

    def step(self) -> None:
        if self._host is not None:
            self._host.step()
        else:
            self._optimizer.step()

    # -- changing ---------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """On all ranks of the old group, before it is left."""
        save(folder / STATE, self._model, self._optimizer)

    def become(self, plan: Plan, folder: Path) -> None:
        """On all ranks of the new group: the state in that folder, under that plan."""
        fresh = self._blueprint.build(self._device)
        parallel = parallelize(self._blueprint, plan, self._device, pristine=fresh)
        if only_data(plan):
            _take_over(self._model, fresh)
        else:
            _stand_for(self._model, fresh, parallel.call)
        self._point_at_parameters()
        load(folder / STATE, self._model, self._optimizer)
        self.plan = plan
        self._parallel = None if only_data(plan) else parallel
        self._host = HostStep(self._optimizer) if plan.offload else None

    def _point_at_parameters(self) -> None:
        """Give the optimizer the parameters of the model as it is now; its state comes after."""
        new = dict(self._model.named_parameters())
        self._optimizer.state.clear()
        for group, names in zip(self._optimizer.param_groups, self._names, strict=True):
            group["params"] = [new[name] for name in names if name in new]


class _StandIn(nn.Module):
    """What the script calls where the model is split: its attributes and the names of its
    parameters are there, and a call goes to the model under its plan."""

    def forward(self, *inputs: Any, **named: Any) -> Any:  # noqa: ANN401
        return self.__dict__["_call"](*inputs, **named)


# What belongs to a module itself and not to what it stands for: torch's hooks would run twice.
_OWN = frozenset(name for name in nn.Module().__dict__ if "hook" in name)


def _stand_for(model: nn.Module, split: nn.Module, call: nn.Module) -> None:
    kind = next(each for each in type(split).__mro__ if not issubclass(each, FSDPModule))
    model.__class__ = type(f"Split{kind.__name__}", (_StandIn, kind), {})
    model.__dict__.clear()
    nn.Module.__init__(model)
    # The same containers: both see every change of parameters.
    model.__dict__.update({k: v for k, v in split.__dict__.items() if k not in _OWN})
    model.__dict__.pop("forward", None)
    model.__dict__["_call"] = call


def _take_over(model: nn.Module, fresh: nn.Module) -> None:
    """Make the script's model the fresh one."""
    model.__class__ = fresh.__class__
    model.__dict__.clear()
    model.__dict__.update(fresh.__dict__)
