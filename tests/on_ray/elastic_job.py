"""A training script whose members change over nodes: rows say when each step was applied.

    python elastic_job.py FOLDER

Each process writes a file of its own to FOLDER. It seems to be long, and faster with more ranks, so
that policies resize it, until FOLDER/last says at which step all ranks leave; from then on it is as
fast as it can be.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BEGUN = time.time()

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

from treadle import train  # noqa: E402

SAMPLES, BATCH = 48, 12
EPOCHS = 100_000
PAUSE_S = 0.3  # of all ranks together


class Rows:
    """What this process did, one JSON document in a line."""

    def __init__(self, folder: Path) -> None:
        attempt = int(os.environ.get("TREADLE_ATTEMPT", "1"))
        self._about = {"attempt": attempt, "pid": os.getpid()}
        self._file = (folder / f"rows-{attempt}-{os.getpid()}.jsonl").open("a")

    def put(self, what: str, at: float | None = None, **details: object) -> None:
        row = {"what": what, "at": at or time.time(), **self._about, **details}
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def after(self, what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, with a row when it is done."""

        def noted(*words: Any, **named: Any) -> Any:
            found = call(*words, **named)
            self.put(what)
            return found

        return noted


def last_step(folder: Path) -> int | None:
    path = folder / "last"
    return int(path.read_text()) if path.exists() else None


def main(folder: Path) -> None:
    rows = Rows(folder)
    rows.put("process", BEGUN)
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(5)
    inputs = torch.randn(SAMPLES, 8, generator=draw)
    dataset = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    torch.manual_seed(1)
    run = train.start(timeout_s=60.0, checkpoint_every_s=0.5)
    run.group.join = rows.after("rendezvous", run.group.join)  # type: ignore[method-assign]
    run.take_state = rows.after("restored", run.take_state)  # type: ignore[method-assign]
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loss_fn = nn.CrossEntropyLoss()
    model, optimizer, data = run.prepare(model, optimizer, dataset, batch_size=BATCH, seed=3)
    rows.put("imported")
    samples: list[int] = []  # of the step so far: a large share comes in several pieces
    for _ in run.epochs(EPOCHS):
        for batch in run.batches(data):
            before = run.step_count
            run.backward(loss_fn(model(batch.x), batch.y))
            run.step(optimizer)
            samples += batch.indices
            if run.step_count == before:
                continue
            where: dict[str, Any] = {"rank": run.rank, "size": run.size, "samples": samples}
            rows.put("step", step=run.step_count, loss=run.loss, **where)
            samples = []
            run.report(loss=run.loss)
            last = last_step(folder)
            if last is None:
                time.sleep(PAUSE_S / run.size)
            elif run.step_count >= last:
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
