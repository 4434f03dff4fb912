"""Saves and loads a model and its optimizer under one plan and size, for any other.

Through torch.distributed.checkpoint: every rank writes its part, and a rank of another plan reads
what it needs. The folder may be in memory (/dev/shm) for a change of plan, or on a disk for a
checkpoint.
"""

import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
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

from treadle.core.errors import InvalidInputError, TreadleError

# One entry for each parameter: a stage of a pipeline knows only its own.
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def save(folder: Path, model: nn.Module, optimizer: Optimizer, *, together: bool) -> None:
    """together: on all ranks of the group; else this rank has everything. OSError: no space."""
    if optimizer.state:
        weights, state = get_state_dict(model, optimizer, options=FLAT)
        document = {"model": weights, "optimizer": state}
    else:  # Before the first step: to ask for its state would make one, of a step that was not.
        document = {"model": get_model_state_dict(model)}
    try:
        with _quietly():
            write(document, checkpoint_id=folder, no_dist=not together)
    except CheckpointException as error:
        raise OSError("; ".join(str(each[0]) for each in error.failures.values())) from None


class UnreadableError(TreadleError):
    """A saved state cannot be read, on one rank at least; all ranks know it."""


def load(folder: Path, model: nn.Module, optimizer: Optimizer, *, together: bool) -> None:
    """Into a model under any plan; together: on all ranks of the group.

    UnreadableError: a part is missing or damaged. InvalidInputError: it is of another model.
    """
    try:
        _load(folder, model, optimizer, together=together)
    except CheckpointException as error:  # not an Exception: scripts and hooks would not see it
        causes = [each[0] for each in error.failures.values()]
        first = (str(causes[0]) or type(causes[0]).__name__).splitlines()[0]
        said = f"the state in {folder} cannot be loaded: {first}"
        if all(isinstance(each, ValueError) or "Missing key" in str(each) for each in causes):
            raise InvalidInputError(f"{said}; was it saved with another model?") from None
        raise UnreadableError(said) from None
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        raise UnreadableError(f"the state in {folder} cannot be loaded: {error}") from None


def _load(folder: Path, model: nn.Module, optimizer: Optimizer, *, together: bool) -> None:
    names = FileSystemReader(folder).read_metadata().state_dict_metadata
    found: dict[str, Any]
    if not any(name.startswith("optimizer.") for name in names):
        found = {"model": get_model_state_dict(model)}
        with _quietly():
            read(found, checkpoint_id=folder, no_dist=not together)
        set_model_state_dict(model, found["model"])
        return
    weights, state = get_state_dict(model, optimizer, options=FLAT)
    found = {"model": weights, "optimizer": state}
    with _quietly():
        read(found, checkpoint_id=folder, no_dist=not together)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=found["model"],
        optim_state_dict=found["optimizer"],
        options=FLAT,
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """Without torch's warning that one process saves alone: it is meant so."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield


def bytes_of(model: nn.Module, optimizer: Optimizer) -> int:
    """What the state of this rank takes."""
    tensors = [*model.parameters(), *model.buffers()]
    for state in optimizer.state.values():
        tensors += [each for each in state.values() if isinstance(each, torch.Tensor)]
    return sum(_local_bytes(each) for each in tensors)


def _local_bytes(tensor: torch.Tensor) -> int:
    local: Any = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return int(local.numel() * local.element_size())
