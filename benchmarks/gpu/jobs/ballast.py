"""Trains a network beside a block of memory, and keeps no checkpoints.

Every loss is printed to the last digit, and a sum over the block at the end: both are the same in
each run, however often it was paused.
"""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--gib", type=float, default=1.0, help="of the block")
parser.add_argument("--width", type=int, default=4096)
options = parser.parse_args()

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
block = torch.arange(int(options.gib * 2**27), dtype=torch.float64, device=device)
width = options.width
model = nn.Sequential(*(nn.Linear(width, width) for _ in range(4))).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
inputs = torch.randn(512, width, device=device)
for step in range(1, options.steps + 1):
    loss = (model(inputs) - inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0 or step in (1, options.steps):
        print(f"step {step}/{options.steps} loss {loss.item()!r}", flush=True)
print(f"block {block.sum().item()!r}", flush=True)
