"""Trains a tiny transformer: most of the time goes into launching small kernels."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=3000)
options = parser.parse_args()

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
model = nn.Sequential(
    nn.Embedding(200, 64),
    nn.TransformerEncoder(layer, 6, enable_nested_tensor=False),
    nn.Linear(64, 200),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
words = torch.randint(200, (8, 32), device=device)

for step in range(1, options.steps + 1):
    loss = nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0 or step in (1, options.steps):
        print(f"step {step}/{options.steps} loss {loss.item():.4f}", flush=True)
