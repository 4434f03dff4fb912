"""Accelerate that stops and resumes: its own checkpoint, and the batches that are done skipped.

treadle submit --resumable -- accelerate launch examples/recipes/accelerate_loop.py
"""

import json

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from treadle import train
from treadle.train.integrations.accelerate import remaining, resumed, save

EPOCHS = 8

# The order of an epoch depends on its number alone, so that it is the same after a restart.
accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
set_seed(0)
inputs = torch.randn(64, 8)
dataset = TensorDataset(inputs, (inputs.sum(1) > 0).long())
network = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 2))
model, optimizer, loader = accelerator.prepare(
    network,
    torch.optim.AdamW(network.parameters(), lr=0.01),
    DataLoader(dataset, batch_size=16, shuffle=True),
)
done = resumed(accelerator) or {"epoch": 0, "batch": 0}
for epoch in range(done["epoch"], EPOCHS):
    loader.set_epoch(epoch)
    first = done["batch"] if epoch == done["epoch"] else 0
    for number, (x, y) in enumerate(remaining(accelerator, loader, first), start=first):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        if accelerator.is_main_process:
            step = epoch * len(loader) + number
            print(json.dumps({"step": step, "loss": loss.item()}), flush=True)
        if train.should_stop():
            save(accelerator, epoch=epoch, batch=number + 1)
            train.leave()
