"""The training script of benchmarks/elastic.py: an endless run that writes when each step ended."""

import json
import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

from treadle import train


def main() -> None:
    said, width = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    run = train.start()
    model = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 8)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    dataset = TensorDataset(torch.randn(4096, 64), torch.randint(8, (4096,)))
    loss_fn = nn.CrossEntropyLoss()
    model, optimizer, data = run.prepare(model, optimizer, dataset, batch_size=256)
    for _ in run.epochs(1_000_000):
        for batch in run.batches(data):
            before = run.step_count
            run.backward(loss_fn(model(batch.x), batch.y))
            run.step(optimizer)
            if run.step_count > before:
                row = {"step": run.step_count, "at": time.monotonic(), "rank": run.rank}
                os.write(said, json.dumps(row).encode() + b"\n")


if __name__ == "__main__":
    main()
