"""An unmodified training script on a GPU: mixed precision, accumulation, clipping, a schedule.

    python mixed_precision.py [PAUSE_S]

Its losses alone and under `python -m treadle.train.auto` must be the same.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pause_s = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
torch.manual_seed(1)
draw = torch.Generator().manual_seed(5)
inputs = torch.randn(512, 64, generator=draw)
dataset = TensorDataset(inputs, (inputs.sum(1) > 0).long())
loader = DataLoader(dataset, batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.ReLU(), nn.Linear(256, 2)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.7)
scaler = torch.amp.GradScaler("cuda")
for epoch in range(12):
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda()) / 2
        scaler.scale(loss).backward()
        if i % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        print(json.dumps({"epoch": epoch, "i": i, "loss": loss.item()}), flush=True)
        time.sleep(pause_s)
    schedule.step()
