"""What an elastic run costs a step that is not changed: the same training with and without it.

    python -m benchmarks.gpu.bookkeeping [--windows 20] [--json FILE] [--small]

One member under a coordinator, on the GPU if there is one. Windows of steps through `run.batches`,
`run.backward` and `run.step` alternate with windows of a plain loop over the same dataset with a
twin of the model, in one process; each window ends when the device is idle. Printed: the median
seconds of a step in both, and the share that the run adds. Needed: below 1 %.
"""

import argparse
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from treadle import train
from treadle.core.member_facts import Target
from treadle.engines.node.first_members import environment
from treadle.engines.node.members import Members

BATCH = 16
SKIPPED = 2  # windows that warm up


class Transformer(nn.Module):
    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, dropout=0.0)
        self.words = nn.Embedding(1000, width)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, 1000)

    def forward(self, words: Tensor) -> Tensor:
        found: Tensor = self.out(self.layers(self.words(words)))
        return found


MODELS: dict[str, Callable[[], nn.Module]] = {
    "transformer, 12 layers of 1024": lambda: Transformer(1024, 12, 16),
    "transformer, 4 layers of 256": lambda: Transformer(256, 4, 4),
}
SMALL: dict[str, Callable[[], nn.Module]] = {"small": lambda: Transformer(64, 2, 4)}


def worker(name: str, windows: int, small: bool) -> None:
    """The member: alternate windows, and print what they took."""
    length, steps = (32, 20) if small else (512, 20)
    if small:
        torch.set_num_threads(1)
    made = {**MODELS, **SMALL}[name]
    run = train.start()
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randint(1000, (BATCH * 64, length)))
    model: nn.Module = made()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, optimizer, data = run.prepare(model, optimizer, dataset, batch_size=BATCH)
    twin = made().to(run.device)
    plain = _plain(twin, torch.optim.AdamW(twin.parameters(), lr=1e-4), dataset, run.device)
    spent: dict[str, list[float]] = {"plain": [], "run": []}
    begun, done = time.perf_counter(), 0
    for _ in run.epochs(1_000_000):
        for batch in run.batches(data):
            run.backward(_loss(model, batch[0]))
            run.step(optimizer)
            done += 1
            if done % steps:
                continue
            _idle(run.device)
            spent["run"].append((time.perf_counter() - begun) / steps)
            begun = time.perf_counter()
            for _ in range(steps):
                next(plain)
            _idle(run.device)
            spent["plain"].append((time.perf_counter() - begun) / steps)
            if len(spent["plain"]) == windows + SKIPPED:
                print(json.dumps({way: times[SKIPPED:] for way, times in spent.items()}))
                sys.stdout.flush()
                os._exit(0)
            begun = time.perf_counter()


def _plain(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    dataset: TensorDataset,
    device: torch.device,
) -> Iterator[None]:
    loader = DataLoader(dataset, BATCH, shuffle=True, pin_memory=device.type == "cuda")
    while True:
        for (words,) in loader:
            optimizer.zero_grad()
            torch.autograd.backward(_loss(model, words.to(device, non_blocking=True)))
            optimizer.step()
            yield


def _loss(model: nn.Module, words: Tensor) -> Tensor:
    with torch.autocast(words.device.type, dtype=torch.bfloat16):
        logits = model(words)
        return nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten())


def _idle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def coordinate(words: list[str]) -> dict[str, list[float]]:
    """Run one member to its end under a coordinator, and read what it printed."""
    made: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder:

        def launch(member: str, _: tuple[str, ...], line: int, joins: bool) -> None:
            extra = environment(member, folder, line, joins=joins, asked=1)
            command = [sys.executable, "-m", "benchmarks.gpu.bookkeeping", *words]
            env = {**os.environ, **extra}
            made.append(
                subprocess.Popen(command, env=env, pass_fds=(line,), stdout=subprocess.PIPE)
            )

        def dismiss(member: str, at_once: bool) -> None:
            made[0].send_signal(signal.SIGKILL if at_once else signal.SIGTERM)
            sys.exit(f"{member} is dismissed")

        members = Members(folder, launch=launch, dismiss=dismiss, report=lambda _: None)
        members.order(Target(1, (("device0",),)), time.monotonic())
        while made[0].poll() is None:
            _look(members)
        assert made[0].stdout is not None
        found: dict[str, list[float]] = json.loads(made[0].stdout.read().splitlines()[-1])
        return found


def _look(members: Members) -> None:

    ready, _, _ = select.select(list(members.descriptors()), [], [], 0.05)
    for descriptor in ready:
        members.readable(descriptor, time.monotonic())
    members.tick(time.monotonic())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--small", action="store_true", help="a small model, to try it on a CPU")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.windows, options.small)
        return
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "windows": options.windows,
        "models": {},
    }
    for name in SMALL if options.small else MODELS:
        words = ["--worker", name, "--windows", str(options.windows)]
        found = coordinate([*words, *(["--small"] if options.small else [])])
        plain, run = (statistics.median(found[way]) for way in ("plain", "run"))
        adds = statistics.median(r / p for r, p in zip(found["run"], found["plain"], strict=True))
        report["models"][name] = {"plain_s": plain, "run_s": run, "adds": adds - 1.0}
        print(f"{name:32} plain {plain:.5f} s  run {run:.5f} s  adds {adds - 1.0:+.2%}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
