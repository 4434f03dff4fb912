"""Trains a small network on images that the CPU augments first: the GPU waits for the host."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--batch", type=int, default=64)
options = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(2)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images = torch.rand(256, 3, 224, 224)
labels = torch.randint(10, (256,))
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, stride=2),
    nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

for step in range(1, options.steps + 1):
    some = torch.randint(256, (options.batch,))
    batch = torch.flip(images[some], dims=[3])
    batch = nn.functional.interpolate(batch, size=(256, 256), mode="bicubic")[..., 16:240, 16:240]
    batch = (batch - batch.mean(dim=(2, 3), keepdim=True)) / (
        batch.std(dim=(2, 3), keepdim=True) + 1e-5
    )
    loss = nn.functional.cross_entropy(model(batch.to(device)), labels[some].to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step in (1, options.steps):
        print(f"step {step}/{options.steps} loss {loss.item():.4f}", flush=True)
