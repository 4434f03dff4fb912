"""Lightning that stops and resumes in the middle of an epoch: a callback and a loader.

treadle submit --resumable -- python examples/recipes/lightning_fit.py
"""

import json
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torch.utils.data import TensorDataset

from treadle.train.integrations.lightning import ResumableLoader, StopCallback, last_checkpoint


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 2))

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.cross_entropy(self.layers(x), y)
        print(json.dumps({"step": self.global_step, "loss": loss.item()}), flush=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


seed_everything(0)
inputs = torch.randn(64, 8)
dataset = TensorDataset(inputs, (inputs.sum(1) > 0).long())
trainer = Trainer(
    max_epochs=8,
    callbacks=[StopCallback()],
    use_distributed_sampler=False,
    accelerator="auto",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
loader = ResumableLoader(dataset, batch_size=16, seed=0)
trainer.fit(Model(), loader, ckpt_path=last_checkpoint())
