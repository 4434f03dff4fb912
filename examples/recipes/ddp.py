"""DistributedDataParallel that stops and resumes; the same under torchrun and under Treadle.

torchrun --nproc-per-node 2 examples/recipes/ddp.py
treadle submit --devices 2 --resumable -- python examples/recipes/ddp.py
"""

import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from treadle import train

EPOCHS = 8

device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
torch.manual_seed(0)
inputs = torch.randn(64, 8)
dataset = TensorDataset(inputs, (inputs.sum(1) > 0).long())
sampler: DistributedSampler[int] = DistributedSampler(dataset, seed=0)
loader = DataLoader(dataset, batch_size=8, sampler=sampler)
layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
model = DistributedDataParallel(layers.to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

done = train.resumed() or {"epoch": 0, "batch": 0}
if "model" in done:
    model.module.load_state_dict(done["model"])
    optimizer.load_state_dict(done["optimizer"])

for epoch in range(done["epoch"], EPOCHS):
    sampler.set_epoch(epoch)
    for number, (x, y) in enumerate(loader):
        if epoch == done["epoch"] and number < done["batch"]:
            continue
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            step = epoch * len(loader) + number
            print(json.dumps({"step": step, "loss": loss.item()}), flush=True)
        if train.should_stop():  # on all ranks at the same step
            with train.checkpoint() as c:  # written by rank 0
                c["epoch"], c["batch"] = epoch, number + 1
                c["model"] = model.module.state_dict()
                c["optimizer"] = optimizer.state_dict()
            dist.barrier()
            train.leave()
dist.destroy_process_group()
