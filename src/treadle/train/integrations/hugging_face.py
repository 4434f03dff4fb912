"""Hugging Face `Trainer`: a callback that stops with a checkpoint, and where to resume from.

In the script:

    trainer = Trainer(..., callbacks=[StopCallback()])
    trainer.train(resume_from_checkpoint=last_checkpoint(trainer.args.output_dir))
"""

import json
from pathlib import Path
from typing import Any

import torch.distributed as dist
from transformers import TrainerCallback

from treadle.core.errors import InvalidInputError
from treadle.report import report
from treadle.train.checkpoint import is_url
from treadle.train.stop import leave, should_stop


class StopCallback(TrainerCallback):
    """When the job is asked to stop: the trainer's own checkpoint, then the end of the process."""

    def __init__(self) -> None:
        self._stops = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:  # noqa: ANN401, ARG002
        if state.is_world_process_zero:
            report(state.global_step, state.max_steps)
        if should_stop():
            self._stops = True
            control.should_save = True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ANN401, ARG002
        if state.is_world_process_zero:
            report(state.global_step, checkpoint=state.global_step)
        if self._stops:
            if dist.is_available() and dist.is_initialized():
                dist.barrier()  # No rank may end while another still writes.
            leave()


def last_checkpoint(folder: str | Path | None) -> str | None:
    """The newest checkpoint that is whole: the trainer writes its state last."""
    if folder is not None and is_url(str(folder)):
        raise InvalidInputError(
            f"output_dir is {folder}, and a Trainer keeps checkpoints in a folder; name one that "
            "all nodes see"
        )
    found = []
    for path in Path(folder or ".").glob("checkpoint-*"):
        try:
            json.loads((path / "trainer_state.json").read_text())
            found.append((int(path.name.rpartition("-")[2]), str(path)))
        except (OSError, ValueError):
            continue
    return max(found)[1] if found else None
