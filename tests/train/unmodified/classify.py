"""A plain training script for one device, as users have them; it knows nothing of Treadle.

It prints a row for each batch: which samples it took, and the loss.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--drop-last", action="store_true")
parser.add_argument("--clip", type=float, default=0.0)
parser.add_argument("--save", default="")
options = parser.parse_args()

torch.set_num_threads(1)
draw = torch.Generator().manual_seed(5)
inputs = torch.randn(60, 6, generator=draw)
labels = (inputs.sum(1) > 0).long()
dataset = TensorDataset(inputs, labels, torch.arange(60))
torch.manual_seed(1)
loader = DataLoader(
    dataset, batch_size=8, shuffle=True, num_workers=options.workers, drop_last=options.drop_last
)
validation = DataLoader(dataset, batch_size=16)
model = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.8)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(options.epochs):
    model.train()
    for i, (x, y, index) in enumerate(loader):
        loss = loss_fn(model(x), y) / options.accumulate
        loss.backward()
        if (i + 1) % options.accumulate == 0:
            if options.clip:
                nn.utils.clip_grad_norm_(model.parameters(), options.clip)
            optimizer.step()
            optimizer.zero_grad()
        row = {"epoch": epoch, "i": i, "loss": loss.item(), "samples": index.tolist()}
        print(json.dumps(row))
    scheduler.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y, _ in validation:
            right += (model(x).argmax(1) == y).sum().item()
    row = {"epoch": epoch, "last": loss.item(), "right": right, "rate": scheduler.get_last_lr()[0]}
    print(json.dumps(row))
    if options.save:
        torch.save(model.state_dict(), f"{options.save}-{epoch}.pt")
if options.save:
    best = torch.load(f"{options.save}-{options.epochs - 1}.pt")
    print(json.dumps({"loaded": len(best), "files": len(list(Path().glob("*.pt")))}))
