"""Trains on data that is read from storage each time: the page cache is told to forget it."""

import argparse
import os
import tempfile
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--shard-mib", type=int, default=64)
parser.add_argument("--shards", type=int, default=8)
options = parser.parse_args()

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
count = options.shard_mib * 2**20 // 4
model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

with tempfile.TemporaryDirectory(dir=os.environ.get("DATA_DIR")) as folder:
    shards = [Path(folder, f"shard-{number}.bin") for number in range(options.shards)]
    for path in shards:
        with path.open("wb") as file:
            file.write(torch.rand(count).numpy().tobytes())
            file.flush()
            os.fsync(file.fileno())
    for step in range(1, options.steps + 1):
        with shards[step % len(shards)].open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            raw = bytearray(file.read())
        rows = torch.frombuffer(raw, dtype=torch.float32).reshape(-1, 1024).to(device)
        loss = model(rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step in (1, options.steps):
            print(f"step {step}/{options.steps} loss {loss.item():.4f}", flush=True)
