"""A script that counts steps in a variable of its own, which a newcomer does not have."""

import argparse
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1_000_000)
parser.add_argument("--own-rate", action="store_true")
options = parser.parse_args()

torch.set_num_threads(1)
inputs = torch.randn(32, 4)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
taken = 0
while taken < options.steps:
    for i, (x, y) in enumerate(loader):
        taken += 1
        if options.own_rate:
            optimizer.param_groups[0]["lr"] = 0.1 / taken
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(json.dumps({"i": i, "loss": loss.item(), "samples": []}))
        if taken == options.steps:
            break
