"""A training script for a real daemon: it writes a row for each applied step.

    python elastic_job.py EPOCHS

It is slow until the file `fast` is there, so that it can be changed while it runs: a step takes
time for each of its samples, so that more devices help.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

from treadle import train


def main() -> None:
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(5)
    inputs = torch.randn(64, 8, generator=draw)
    dataset = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    torch.manual_seed(1)
    run = train.start(timeout_s=60.0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loss_fn = nn.CrossEntropyLoss()
    model, optimizer, data = run.prepare(model, optimizer, dataset, batch_size=16, seed=3)
    samples: list[int] = []  # of the step so far: a large share comes in several pieces
    with Path("rows.jsonl").open("a") as rows:
        for _ in run.epochs(int(sys.argv[1])):
            for batch in run.batches(data):
                before = run.step_count
                run.backward(loss_fn(model(batch.x), batch.y))
                run.step(optimizer)
                samples += batch.indices
                if run.step_count == before:
                    continue
                row: dict[str, object] = {
                    "step": run.step_count,
                    "rank": run.rank,
                    "size": run.size,
                }
                row |= {"loss": run.loss, "pid": os.getpid(), "samples": samples}
                row |= {"plan": run.plan.text, "replica": run._replica()[0]}
                rows.write(json.dumps(row) + "\n")
                rows.flush()
                run.report(loss=run.loss)
                if not Path("fast").exists():
                    time.sleep(0.075 * len(samples))
                samples = []


if __name__ == "__main__":
    main()
