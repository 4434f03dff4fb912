"""Two loaders in turn, two optimizers, a gradient scaler, a plateau scheduler and an average."""

import argparse
import json
from pathlib import Path

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--own-checkpoint", default="")
options = parser.parse_args()

torch.set_num_threads(1)
inputs = torch.randn(60, 6, generator=torch.Generator().manual_seed(5))
labels = (inputs.sum(1) > 0).long()
dataset = TensorDataset(inputs, labels, torch.arange(60))
torch.manual_seed(1)
halves = [
    DataLoader(TensorDataset(*dataset[part]), batch_size=8, shuffle=True)
    for part in (slice(0, 30), slice(30, 60))
]
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizers = [
    torch.optim.AdamW(model[0].parameters(), lr=0.02),
    torch.optim.SGD(model[2].parameters(), lr=0.1, momentum=0.9),
]
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizers[0], patience=1, factor=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=20)
first = 0
own = Path(options.own_checkpoint)
if options.own_checkpoint and own.exists():
    saved = torch.load(own)
    first = saved["epoch"]
    model.load_state_dict(saved["model"])
for epoch in range(first, options.epochs):
    model.train()
    for part, loader in enumerate(halves):
        for i, (x, y, index) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            for optimizer in optimizers:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            for optimizer in optimizers:
                scaler.step(optimizer)
                optimizer.zero_grad()
            scaler.update()
            average.update_parameters(model)
            row = {"epoch": epoch, "i": 4 * part + i, "loss": loss.item()}
            print(json.dumps(row | {"samples": index.tolist()}))
    model.eval()
    with torch.no_grad():
        validation = nn.functional.cross_entropy(average(inputs), labels).item()
    plateau.step(validation)
    row = {"epoch": epoch, "validation": validation, "scale": scaler.get_scale()}
    print(json.dumps(row | {"rate": optimizers[0].param_groups[0]["lr"]}))
    if options.own_checkpoint:
        torch.save({"epoch": epoch + 1, "model": model.state_dict()}, own)
