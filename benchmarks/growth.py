"""How the CPU time and memory of a simulation grow: jobs, devices, queue and types of device.

    python -m benchmarks.growth [--only jobs,devices] [--largest 10000] [--limit 100]
    python -m benchmarks.figures --write growth-jobs growth-devices growth-queue growth-types

Each point is a process of its own: CPU time from the first event to the last, and the memory that
jobs, schedule and records take beside the imported modules. A point that takes longer than --limit
CPU seconds is cut off, and so are larger ones of its policy. The exponent is the slope of a
straight line through the logarithms: 1 is linear, 2 is four times the time for twice the size.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import log
from pathlib import Path

from benchmarks.pictures import add_legend, new_picture, save

from treadle.core.cluster import Cluster, Node
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.synthetic import generate

POLICIES = ("fifo", "srtf", "afs", "weave-l")
NODE = 4  # devices
ONCE = 1000.0  # the load of jobs that arrive at about the same time
LARGEST, LIMIT_S = 1_000_000, 100.0
LEAST_S, LEAST_MB = 0.05, 2.0  # smaller points say nothing of growth


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation."""

    policy: str
    jobs: int = 10_000
    devices: int = 256
    load: float = 0.95
    types: int = 1
    live: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """What one simulation took; without CPU time it was cut off."""

    cpu_s: float | None
    peak_mb: float = 0.0


# The sizes along each axis. All jobs may grow and shrink.
SIZES: Mapping[str, Sequence[int]] = {
    "jobs": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "devices": (100, 1_000, 10_000, 100_000),
    "queue": (300, 1_000, 3_000, 10_000, 30_000, 100_000),
    "types": (1, 2, 4, 8, 16),
}
MEANING: Mapping[str, str] = {
    "jobs": "jobs arrive one after another at load 0.95 on 256 devices",
    "devices": "10,000 jobs (weave-l: 1,000) at load 0.95",
    "queue": "all jobs arrive at about the same time and wait for 256 devices",
    "types": "1,000 jobs at load 0.95 on 256 devices of several types, each job for one type; "
    "with the live decision around each policy",
}
Costs = Mapping[str, Mapping[int, Cost]]  # by policy, then by size


def case(axis: str, policy: str, size: int) -> Case:
    """The simulation of one size along an axis."""
    match axis:
        case "jobs":
            return Case(policy, jobs=size)
        case "devices":
            return Case(policy, devices=size, jobs=1_000 if policy == "weave-l" else 10_000)
        case "queue":
            return Case(policy, jobs=size, load=ONCE)
        case _:
            return Case(policy, jobs=1_000, types=size, live=True)


def simulate(one: Case) -> Cost:
    """In this process; it should have done nothing else."""
    before_mb = _peak_mb()
    nodes = one.devices // NODE
    machines = [Node(f"n{n}", NODE, f"type-{n % one.types}") for n in range(nodes)]
    cluster = Cluster(tuple(machines)) if one.types > 1 else Cluster.grid(nodes, NODE)
    drawn = generate("poisson", jobs=one.jobs, seed=1, load=one.load, cluster=cluster)
    if one.types > 1:
        typed = [
            replace(job, device_types=(f"type-{number % one.types}",))
            for number, job in enumerate(drawn.jobs)
        ]
        drawn = replace(drawn, jobs=tuple(typed))
    settings = Settings(policy=one.policy, elastic=0.05, restart_cost="30", live=one.live)
    begun_s = time.process_time()
    summary = prepare(drawn, cluster, settings).finish()
    spent_s = time.process_time() - begun_s
    assert summary.finished == one.jobs, f"{one}: {summary.finished} jobs finished"
    return Cost(spent_s, _peak_mb() - before_mb)


def measure(axis: str, policy: str, sizes: Sequence[int], limit_s: float) -> dict[int, Cost]:
    """The costs along an axis, until one is cut off."""
    found: dict[int, Cost] = {}
    for size in sizes:
        text = json.dumps(asdict(case(axis, policy, size)))
        words = [sys.executable, "-m", "benchmarks.growth", "--limit", str(limit_s), "--one", text]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode > 0:
            raise SystemExit(f"{axis} {policy} {size} failed: {done.stderr}")
        found[size] = Cost(**json.loads(done.stdout)) if done.returncode == 0 else Cost(None)
        print(f"{axis} {policy} {size:,}: {found[size]}", file=sys.stderr, flush=True)
        if done.returncode:  # by the limit's signal
            break
    return found


@cache
def measured(axis: str, largest: int = LARGEST, limit_s: float = LIMIT_S) -> Costs:
    """All policies along an axis, on half of the cores."""
    sizes = [size for size in SIZES[axis] if size <= largest]
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        open_ = {p: pool.submit(measure, axis, p, sizes, limit_s) for p in POLICIES}
        return {policy: one.result() for policy, one in open_.items()}


def exponent(points: Mapping[int, float], least: float) -> float | None:
    """The slope of the logarithms, by least squares; None: too few points are large enough."""
    logs = [(log(size), log(value)) for size, value in points.items() if value >= least]
    if len(logs) < 3:
        return None
    x, y = sum(a for a, _ in logs) / len(logs), sum(b for _, b in logs) / len(logs)
    slope: float = sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)
    return slope


def rows(axis: str, largest: int = LARGEST, limit_s: float = LIMIT_S) -> list[list[str]]:
    """A row for each size, and one for the exponents."""
    found = measured(axis, largest, limit_s)
    table = [[axis, *(f"`{policy}` {what}" for policy in found for what in ("CPU s", "MB"))]]
    for size in sorted({size for costs in found.values() for size in costs}):
        table.append([f"{size:,}"])
        for costs in found.values():
            cost = costs.get(size)
            if cost is None:
                table[-1] += ["-", "-"]
            elif cost.cpu_s is None:
                table[-1] += [f"> {limit_s:g}", "-"]
            else:
                table[-1] += [f"{cost.cpu_s:.2f}", f"{cost.peak_mb:.0f}"]
    slopes = [slope for costs in found.values() for slope in _exponents(costs)]
    return [*table, ["exponent", *("-" if one is None else f"{one:.2f}" for one in slopes)]]


def draw(axis: str, folder: Path) -> str:
    """CPU time over size, both logarithmic; returns the Markdown that shows it."""
    picture = new_picture(6.0, 3.6)
    axes = picture.axes[0]
    for policy, costs in measured(axis).items():
        points = {size: cost.cpu_s for size, cost in costs.items() if cost.cpu_s is not None}
        slope, _ = _exponents(costs)
        shown = policy if slope is None else f"{policy} (exponent {slope:.2f})"
        axes.loglog(list(points), list(points.values()), "o-", label=shown)
    axes.set(xlabel=axis, ylabel="CPU seconds of the simulation")
    axes.grid(color="#eceff3")
    add_legend(picture)
    save(picture, folder / f"scale-{axis}.svg")
    return f"![CPU seconds by {axis}](scale-{axis}.svg)"


def _exponents(costs: Mapping[int, Cost]) -> tuple[float | None, float | None]:
    """Of CPU time and of memory."""
    whole = {size: cost for size, cost in costs.items() if cost.cpu_s is not None}
    seconds = {size: cost.cpu_s or 0.0 for size, cost in whole.items()}
    memory = {size: cost.peak_mb for size, cost in whole.items()}
    return exponent(seconds, LEAST_S), exponent(memory, LEAST_MB)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SIZES), help="axes, such as jobs,queue")
    parser.add_argument("--largest", type=int, default=LARGEST)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="CPU seconds of one point")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        limit_s = round(options.limit)
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
        print(json.dumps(asdict(simulate(Case(**json.loads(options.one))))))
        return
    for axis in options.only.split(","):
        print(f"\n{axis}: {MEANING[axis]}\n")
        for row in rows(axis, options.largest, options.limit):
            print(" | ".join(row), flush=True)


if __name__ == "__main__":
    main()
