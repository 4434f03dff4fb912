"""Small scripts for one device, one for each case that `treadle.train.auto` has to tell apart."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

case = sys.argv[1]
torch.set_num_threads(1)
torch.manual_seed(3)
inputs = torch.randn(32, 4)
dataset: Dataset = TensorDataset(inputs, inputs.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
if case == "batch-norm":
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
if case == "wrapped":
    model = nn.DataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loss_fn = nn.MSELoss(reduction="sum" if case == "sum" else "mean")


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(inputs, inputs.sum(1, keepdim=True), strict=True))


class Endless:
    """Batches without an end."""

    def __iter__(self):
        while True:
            yield list(range(8))


if case == "iterable":
    loader = DataLoader(Stream(), batch_size=8)
elif case == "endless":
    loader = DataLoader(dataset, batch_sampler=Endless())
elif case == "single":
    loader = DataLoader(dataset, batch_size=None)
else:
    loader = DataLoader(dataset, batch_size=8, shuffle=True)
if case == "lbfgs":
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
if case == "own-group":
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
second = torch.optim.SGD(model.parameters(), lr=0.01) if case == "unequal" else None

if case == "manual":
    for _ in range(3):
        loss_fn(model(inputs), inputs.sum(1, keepdim=True)).backward()
        optimizer.step()
    sys.exit(0)
for epoch in range(3):
    source = zip(loader, loader, strict=True) if case == "two" else loader
    for i, batch in enumerate(source):
        x, y = batch[0] if case == "two" else batch
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        if case == "by-hand":
            for parameter, grad in zip(
                model.parameters(), torch.autograd.grad(loss, [*model.parameters()]), strict=True
            ):
                parameter.grad = grad
        else:
            loss.backward()
        if case == "lbfgs":
            optimizer.step(lambda x=x, y=y: loss_fn(model(x), y))
        else:
            optimizer.step()
        if second is not None and i == 0:
            second.step()
        print(json.dumps({"epoch": epoch, "i": i, "loss": loss.item()}))
        if case == "endless" and i == 4:
            sys.exit(0)
