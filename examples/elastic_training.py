"""Train a small classifier: alone, under torchrun, or as an elastic job of Treadle.

python examples/elastic_training.py [EPOCHS]
torchrun --standalone --nproc-per-node=2 examples/elastic_training.py
"""

import json
import sys

import torch
from torch import nn
from torch.utils.data import TensorDataset

from treadle import train


def main() -> None:
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    torch.manual_seed(0)
    inputs = torch.randn(512, 8)
    dataset = TensorDataset(inputs, (inputs.sum(1) > 0).long())

    run = train.start()
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loss_fn = nn.CrossEntropyLoss()
    model, optimizer, data = run.prepare(model, optimizer, dataset, batch_size=64, seed=0)
    for epoch in run.epochs(epochs):
        for batch in run.batches(data):
            loss = loss_fn(model(batch.x), batch.y)
            run.backward(loss)
            run.step(optimizer)
        run.report(loss=run.loss)
        if run.rank == 0:
            print(json.dumps({"epoch": epoch, "loss": run.loss, "ranks": run.size}), flush=True)


if __name__ == "__main__":
    main()
