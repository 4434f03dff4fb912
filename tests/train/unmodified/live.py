"""A plain training script for one device; slow until the file `fast` is there."""

import json
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(5))


class Samples(Dataset):
    def __len__(self):
        return len(inputs)

    def __getitem__(self, index):
        if not Path("fast").exists():
            time.sleep(0.06)
        return inputs[index], int(inputs[index].sum() > 0), index


torch.manual_seed(1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loader = DataLoader(Samples(), batch_size=16, shuffle=True)
for epoch in range(int(sys.argv[1])):
    for i, (x, y, index) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(json.dumps({"epoch": epoch, "i": i, "loss": loss.item(), "samples": index.tolist()}))
