"""A script whose learning rate follows a counter of its own, which a newcomer does not have."""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
inputs = torch.randn(32, 4)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
taken = 0
for epoch in range(100_000):
    for i, (x, y) in enumerate(loader):
        taken += 1
        optimizer.param_groups[0]["lr"] = 0.1 / taken
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(json.dumps({"epoch": epoch, "i": i, "loss": loss.item(), "samples": []}))
