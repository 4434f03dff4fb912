"""The six kinds of jobs of shared/profiles/h200_sharing.csv as loops that name their stages.

Each kind is a generator: it makes a model, then trains one step each time it is asked for the next.
Shapes are those of benchmarks/gpu/jobs; `small` ones run on a CPU, to try the code.
"""

import os
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import torch
from torch import Tensor, nn

from treadle.train.stages import Stages

Job = Callable[[Stages, torch.device, bool], Generator[None, None, None]]


def _train(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()


def transformer(stages: Stages, device: torch.device, small: bool) -> Generator[None, None, None]:
    width, layers, batch, length = (64, 2, 4, 32) if small else (1024, 12, 16, 512)
    layer = nn.TransformerEncoderLayer(width, 16, 4 * width, batch_first=True, dropout=0.0)
    model = nn.Sequential(
        nn.Embedding(1000, width),
        nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
        nn.Linear(width, 1000),
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    words = torch.randint(1000, (batch, length), device=device)
    while True:
        with stages.stage("compute"):
            with torch.autocast(device.type, dtype=torch.bfloat16):
                logits = model(words)
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten())
            _train(optimizer, loss)
        yield


def tiny(stages: Stages, device: torch.device, small: bool) -> Generator[None, None, None]:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    model = nn.Sequential(
        nn.Embedding(200, 64),
        nn.TransformerEncoder(layer, 2 if small else 6, enable_nested_tensor=False),
        nn.Linear(64, 200),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    words = torch.randint(200, (8, 32), device=device)
    while True:
        with stages.stage("compute"):
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
            _train(optimizer, loss)
        yield


def lstm(stages: Stages, device: torch.device, small: bool) -> Generator[None, None, None]:
    width, length = (64, 16) if small else (512, 128)
    embedding = nn.Embedding(5000, width).to(device)
    net = nn.LSTM(width, width, num_layers=2, batch_first=True).to(device)
    head = nn.Linear(width, 5000).to(device)
    weights = [*embedding.parameters(), *net.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(weights, lr=1e-3)
    words = torch.randint(5000, (32, length), device=device)
    while True:
        with stages.stage("compute"):
            hidden, _ = net(embedding(words))
            loss = nn.functional.cross_entropy(head(hidden).flatten(0, 1), words.flatten())
            _train(optimizer, loss)
        yield


def augment(stages: Stages, device: torch.device, small: bool) -> Generator[None, None, None]:
    torch.set_num_threads(2)
    side, batch = (32, 4) if small else (224, 64)
    images, labels = torch.rand(256, 3, side, side), torch.randint(10, (256,))
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    large = (side * 8 // 7, side * 8 // 7)
    while True:
        with stages.stage("prepare"):
            some = torch.randint(256, (batch,))
            made = torch.flip(images[some], dims=[3])
            made = nn.functional.interpolate(made, size=large, mode="bicubic")[..., :side, :side]
            made = (made - made.mean(dim=(2, 3), keepdim=True)) / (
                made.std(dim=(2, 3), keepdim=True) + 1e-5
            )
        with stages.stage("compute"):
            outputs = model(made.to(device))
            loss = nn.functional.cross_entropy(outputs, labels[some].to(device))
            _train(optimizer, loss)
        yield


def storage(stages: Stages, device: torch.device, small: bool) -> Generator[None, None, None]:
    count = (1 if small else 64) * 2**20 // 4
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory(dir=os.environ.get("DATA_DIR")) as folder:
        shards = [Path(folder, f"shard-{number}.bin") for number in range(4)]
        for path in shards:
            with path.open("wb") as file:
                file.write(os.urandom(1024) * (count // 256))
                file.flush()
                os.fsync(file.fileno())
        step = 0
        while True:
            step += 1
            with stages.stage("load"), shards[step % len(shards)].open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                raw = bytearray(file.read())
            with stages.stage("prepare"):
                rows = torch.frombuffer(raw, dtype=torch.uint8)[: count * 2].to(torch.float32)
                rows = (rows / 255.0).reshape(-1, 1024)
            with stages.stage("compute"):
                loss = model(rows.to(device)).square().mean()
                _train(optimizer, loss)
            yield


KINDS: dict[str, Job] = {
    "transformer": transformer,
    "tiny": tiny,
    "lstm": lstm,
    "augment": augment,
    "storage": storage,
}
