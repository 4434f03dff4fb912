"""What two trainings get done together that use more cores than there are.

    python benchmarks/crowded_cores.py [--seconds 6]

Each is measured alone on some cores, then two at a time on the same ones. The law is that each
keeps the cores that there are over those that both use (`kept_in_crowd` in core/company.py). Some
train with several threads, which wait for each other; some with one, and load data in others.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

# How it trains, with how many threads or loaders, on how many cores.
CASES = [
    ("threads", 1, 2),
    ("loaders", 1, 2),
    ("loaders", 2, 3),
    ("threads", 3, 5),
    ("threads", 2, 3),
    ("threads", 3, 4),
    ("threads", 2, 2),
]
WARM_S = 3.0
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


class Pictures(Dataset[Tensor]):
    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> Tensor:
        picture = torch.randn(3, 32, 32)
        for _ in range(25):
            picture = picture * 1.01 + picture.mean()
        return picture


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--job", nargs=2, metavar=("HOW", "MANY"), help="be one of the trainings")
    options = parser.parse_args()
    if options.job:
        train(options.job[0], int(options.job[1]), options.seconds)
        return 0
    print("HOW        CORES  USES  TIMES  SUM   LAW")
    for how, many, cores in CASES:
        ((alone, uses),) = run(1, how, many, cores, options.seconds)
        both = run(2, how, many, cores, options.seconds)
        done = sum(per_s for per_s, _ in both) / alone
        law = 2.0 * min(1.0, cores / (2.0 * uses))
        case = f"{many} {how}  {cores:5}  {uses:4.2f}  {2 * uses / cores:5.2f}"
        print(f"{case}  {done:4.2f}  {law:4.2f}", flush=True)
    return 0


def run(jobs: int, how: str, many: int, cores: int, seconds: float) -> list[tuple[float, float]]:
    """Steps a second and cores of each of so many jobs at the same time."""
    words = [sys.executable, __file__, "--seconds", str(seconds), "--job", how, str(many)]
    pinned = ["taskset", "-c", f"0-{cores - 1}", *words]
    begun = [subprocess.Popen(pinned, stdout=subprocess.PIPE, text=True) for _ in range(jobs)]
    found = [map(float, job.communicate()[0].split()) for job in begun]
    return [(per_s, uses) for per_s, uses in found]


def train(how: str, many: int, seconds: float) -> None:
    torch.set_num_threads(many if how == "threads" else 1)
    step = _step(_batches(how, many))
    _steps(step, WARM_S)
    used_s, begun = _cpu_s(), time.perf_counter()
    done = _steps(step, seconds)
    passed_s = time.perf_counter() - begun
    print(done / passed_s, (_cpu_s() - used_s) / passed_s, flush=True)
    os._exit(0)  # The loaders have work for hours.


def _steps(step: Callable[[], None], seconds: float) -> int:
    done, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        step()
        done += 1
    return done


def _batches(how: str, many: int) -> Iterator[Tensor]:
    if how == "loaders":
        yield from DataLoader(Pictures(), 32, num_workers=many)
    batch = torch.randn(32, 3, 32, 32)
    while True:
        yield batch


def _step(batches: Iterator[Tensor]) -> Callable[[], None]:
    conv = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*conv, nn.Flatten(), nn.Linear(32 * 32 * 32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        model(next(batches)).sum().backward()
        optimizer.step()

    return step


def _cpu_s() -> float:
    """Of this process and its loaders."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    ticks = 0
    for pid in ("self", *children.split()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks * TICK_S


if __name__ == "__main__":
    sys.exit(main())
