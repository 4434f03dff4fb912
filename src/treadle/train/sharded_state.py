"""Saves and loads a model and its optimizer under one plan and size, for any other.

Through torch.distributed.checkpoint: every rank writes its part, and a rank of another plan reads
what it needs. The folder may be in memory (/dev/shm) for a change of plan, or on a disk for a
checkpoint.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as read
from torch.distributed.checkpoint.state_dict_saver import save as write
from torch.optim import Optimizer

MEMORY = Path("/dev/shm")
# One entry for each parameter: a stage of a pipeline knows only its own.
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)
SPARE = 0.5  # of the memory that is free: more goes to a disk


def save(folder: Path, model: nn.Module, optimizer: Optimizer) -> None:
    """On all ranks. The folder appears when it is whole."""
    weights, state = get_state_dict(model, optimizer, options=FLAT)
    write({"model": weights, "optimizer": state}, checkpoint_id=folder, no_dist=_alone())


def load(folder: Path, model: nn.Module, optimizer: Optimizer) -> None:
    """On all ranks, into a model under any plan."""
    weights, state = get_state_dict(model, optimizer, options=FLAT)
    found: dict[str, Any] = {"model": weights, "optimizer": state}
    read(found, checkpoint_id=folder, no_dist=_alone())
    set_state_dict(
        model,
        optimizer,
        model_state_dict=found["model"],
        optim_state_dict=found["optimizer"],
        options=FLAT,
    )


def in_memory(bytes_needed: int, name: str, otherwise: Path) -> Path:
    """A folder in memory if that much fits, else on the disk."""
    try:
        free = shutil.disk_usage(MEMORY).free
    except OSError:
        free = 0
    return (MEMORY if bytes_needed < SPARE * free else otherwise) / name


def bytes_of(model: nn.Module, optimizer: Optimizer) -> int:
    """What the state of this rank takes."""
    tensors = [*model.parameters(), *model.buffers()]
    for state in optimizer.state.values():
        tensors += [each for each in state.values() if isinstance(each, torch.Tensor)]
    return sum(each.numel() * each.element_size() for each in tensors)


def _alone() -> bool:
    return not dist.is_initialized()
