"""Accelerate: its own checkpoint of model, optimizer and random numbers, whole or not there.

In the script:

    done = resumed(accelerator) or {"epoch": 0, "batch": 0}
    for epoch in range(done["epoch"], EPOCHS):
        first = done["batch"] if epoch == done["epoch"] else 0
        for number, batch in enumerate(remaining(accelerator, loader, first), start=first):
            ...
            if train.should_stop():
                save(accelerator, epoch=epoch, batch=number + 1)
                train.leave()
"""

import json
import pickle
import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from treadle.core.errors import InvalidInputError
from treadle.train.checkpoint import folder

PREFIX = "accelerate-"
POSITION = "position.json"
KEPT = 2
# What json, torch and safetensors raise for a file that is missing, damaged or cut short.
_DAMAGED = (
    OSError,
    ValueError,
    LookupError,
    RuntimeError,
    EOFError,
    pickle.UnpicklingError,
    SafetensorError,
)


def save(accelerator: Any, **position: int) -> None:  # noqa: ANN401
    """Write a checkpoint, with where the training is; all ranks call it."""
    draft = folder() / ".accelerate.part"
    if accelerator.is_main_process:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(draft))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        (draft / POSITION).write_text(json.dumps(position))
        older = _paths()
        number = int(older[0].name.removeprefix(PREFIX)) + 1 if older else 0
        draft.rename(folder() / f"{PREFIX}{number:08d}")
        for path in _paths()[KEPT:]:
            shutil.rmtree(path, ignore_errors=True)
    accelerator.wait_for_everyone()


def resumed(accelerator: Any) -> dict[str, int] | None:  # noqa: ANN401
    """Load the newest checkpoint that can be read, and say where it was written; all ranks call it.

    None: there is none, and the training begins.
    """
    for path in _paths():
        problem, position = "", {}
        try:
            position = json.loads((path / POSITION).read_text())
            accelerator.load_state(str(path))
        except _DAMAGED as error:
            if "loading state_dict" in str(error):  # It is whole, and of another model.
                raise
            problem = (str(error) or type(error).__name__).splitlines()[0]
        # All ranks go on from the same one: it may be damaged for one of them alone.
        failed = torch.tensor([int(bool(problem))], device=accelerator.device)
        if not accelerator.gather(failed).any():
            return position
        sys.stderr.write(
            f"{path.name} is passed over: {problem or 'another rank cannot read it'}\n"
        )
    if _paths():  # The model may have a part of one.
        raise InvalidInputError(
            f"none of the checkpoints {PREFIX}* in {folder()} can be read; remove them to restart"
        )
    return None


def remaining(accelerator: Any, loader: Any, first: int) -> Iterator[Any]:  # noqa: ANN401
    """The batches of an epoch from one on; 0: the loader as it is.

    To begin in the middle draws no random number that the run did not draw before.
    """
    if not first:
        yield from loader
        return
    batches = iter(accelerator.skip_first_batches(loader, first))
    with torch.random.fork_rng():
        found = list(islice(batches, 1))
    yield from found
    yield from batches


def _paths() -> list[Path]:
    """The newest first."""
    return sorted(folder().glob(f"{PREFIX}*"), reverse=True)
