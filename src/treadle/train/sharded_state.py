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
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
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
    """On all ranks."""
    if optimizer.state:
        weights, state = get_state_dict(model, optimizer, options=FLAT)
        document = {"model": weights, "optimizer": state}
    else:  # Before the first step: to ask for its state would make one, of a step that was not.
        document = {"model": get_model_state_dict(model)}
    write(document, checkpoint_id=folder, no_dist=_alone())


def load(folder: Path, model: nn.Module, optimizer: Optimizer) -> None:
    """On all ranks, into a model under any plan."""
    names = FileSystemReader(folder).read_metadata().state_dict_metadata
    found: dict[str, Any]
    if not any(name.startswith("optimizer.") for name in names):
        found = {"model": get_model_state_dict(model)}
        read(found, checkpoint_id=folder, no_dist=_alone())
        set_model_state_dict(model, found["model"])
        return
    weights, state = get_state_dict(model, optimizer, options=FLAT)
    found = {"model": weights, "optimizer": state}
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
