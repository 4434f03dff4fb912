"""Hugging Face `Trainer` that stops and resumes: one callback, one argument.

treadle submit --resumable -- python examples/recipes/hugging_face.py
"""

import json
import os
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from treadle.train.integrations.hugging_face import StopCallback, last_checkpoint


class Tokens(Dataset[dict[str, torch.Tensor]]):
    def __init__(self) -> None:
        self.tokens = torch.randint(32, (48, 8), generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


class Print(TrainerCallback):
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if "loss" in logs:
            print(json.dumps({"step": state.global_step - 1, "loss": logs["loss"]}), flush=True)


set_seed(0)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=0)
)
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir=os.environ.get("TREADLE_CHECKPOINT_DIR", "checkpoints"),
        per_device_train_batch_size=8,
        num_train_epochs=5,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    ),
    train_dataset=Tokens(),
    callbacks=[StopCallback(), Print()],
)
trainer.train(resume_from_checkpoint=last_checkpoint(trainer.args.output_dir))
