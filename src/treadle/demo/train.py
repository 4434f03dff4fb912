"""A small real training job for the demo: single-device PyTorch code with treadle.train.

Treadle gives it more or fewer devices while it trains. Started again, with any number of ranks, it
goes on from its checkpoint. The batch is divided among the ranks, so more ranks mean shorter steps
and the same training.

    python train.py STEPS WIDTH
    python train.py measure WIDTH       # prints the seconds of a step on one CPU slot
"""

import sys
import time

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from treadle import train

BATCH = 128
EPOCH = 20  # steps
CLASSES = 8
PIXELS = 16
SEED = 7


def main() -> None:
    if sys.argv[1] == "measure":
        print(_step_s(int(sys.argv[2])))
        return
    steps, width = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)  # More would only spin: a batch is small.
    run = train.start()
    torch.manual_seed(SEED)
    model = _model(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    dataset = _pictures(BATCH * min(EPOCH, steps))
    model, optimizer, data = run.prepare(model, optimizer, dataset, batch_size=BATCH, seed=SEED)
    epochs = max(1, round(steps / EPOCH))
    for epoch in run.epochs(epochs):
        for batch in run.batches(data):
            run.backward(nn.functional.cross_entropy(model(batch.x), batch.y))
            run.step(optimizer)
        run.report(loss=run.loss)
        if run.rank == 0:
            print(f"epoch {epoch + 1}/{epochs} loss {run.loss:.4f}, {run.size} ranks", flush=True)


def _step_s(width: int) -> float:
    """Seconds of a step with one core: the least of some, since other work only adds."""
    torch.set_num_threads(1)
    model, data = _model(width), _pictures(BATCH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    found = []
    for _ in range(12):
        begun = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data.tensors[0]), data.tensors[1])
        torch.autograd.backward(loss)
        optimizer.step()
        found.append(time.perf_counter() - begun)
    return min(found)


def _model(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(width * 16, CLASSES),
    )


def _pictures(count: int) -> TensorDataset:
    """Noise, brighter in one stripe, which is the class."""
    draw = torch.Generator().manual_seed(SEED)
    labels: Tensor = torch.randint(CLASSES, (count,), generator=draw)
    pictures = torch.randn(count, 3, PIXELS, PIXELS, generator=draw)
    stripe = PIXELS // CLASSES
    for label in range(CLASSES):
        rows = slice(label * stripe, (label + 1) * stripe)
        pictures[labels == label, :, rows, :] += 0.7
    return TensorDataset(pictures, labels)


if __name__ == "__main__":
    main()
