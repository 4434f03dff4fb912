"""A loop of your own that stops and resumes; without signal handling.

treadle submit --resumable -- python examples/recipes/plain_loop.py
"""

import json

import torch
from torch import nn

from treadle import train

STEPS = 30

torch.manual_seed(0)
inputs = torch.randn(64, 8)
labels = (inputs.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

first = 0
if saved := train.resumed():
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["random"])

for step in range(first, STEPS):
    batch = torch.randint(64, (16,))
    loss = nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(json.dumps({"step": step, "loss": loss.item()}), flush=True)
    if train.should_stop():
        with train.checkpoint() as c:
            c["step"] = step + 1
            c["model"] = model.state_dict()
            c["optimizer"] = optimizer.state_dict()
            c["random"] = torch.get_rng_state()
        train.leave()
