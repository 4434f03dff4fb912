"""How soon an unmodified torch script makes its first step, cold and from a warm interpreter.

    .venv/bin/python benchmarks/warm.py [runs]

Both run under the local engine, by turns, in the same folder. Phases: from the order to the first
line of the script, its imports, and from there to the end of its first step.
"""

import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Start
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import AttemptEnded, Event
from treadle.core.job_report import JobReport
from treadle.core.launch import Launch
from treadle.engines.agent.agent import Agent
from treadle.engines.clusters.here import HereFleet
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.node.devices import CpuSlots
from treadle.engines.registry import EngineContext

SCRIPT = """
import os, sys, time
began = time.time()
import torch
imported = time.time()
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(32, 64)).pow(2).mean().backward()
optimizer.step()
import json
print(json.dumps([began, imported, time.time(), sum(os.times()[:2])]), flush=True)
while sys.argv[1:] == ["wait"] and not os.path.exists("go"):
    time.sleep(0.01)
"""
NEEDED = 5.0
READY_WITHIN_S = 120.0
PHASES = ("to the script", "imports", "first step", "in all")


class Jobs:
    """The controller's side: how to launch, and what became of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: asyncio.Queue[AttemptEnded] = asyncio.Queue()

    def launch(self, job: str, action: int, _: Allocation) -> Launch:
        words = ("wait",) if job == "first" else ()
        return Launch(
            job=job,
            attempt=action,
            command=(sys.executable, "train.py", *words),
            workdir=str(self.folder),
            ranks=1,
            uid=os.geteuid(),
            warm=not job.startswith("cold"),
        )

    def tell(self, *facts: Event) -> None:
        for fact in facts:
            if isinstance(fact, AttemptEnded):
                self.ended.put_nowait(fact)

    def report(self, *reports: JobReport) -> None:
        raise AssertionError(reports)


async def run(engine: FleetEngine, jobs: Jobs, job: str, action: int) -> tuple[list[float], float]:
    """The phases of one attempt, and its CPU seconds."""
    ordered = time.time()
    await engine.carry_out([Start(action, job, Allocation((Device("here", 0),)))])
    await jobs.ended.get()
    folder = jobs.folder / "engine" / "jobs" / job / str(action)
    began, imported, stepped, cpu_s = json.loads((folder / "rank-0.log").read_text())
    warm = json.loads((folder / "status.json").read_text())["warm"]
    assert bool(warm) == job.startswith("warm"), f"{job}: {warm} warm ranks"
    phases = [began - ordered, imported - began, stepped - imported, stepped - ordered]
    return phases, cpu_s


async def measure(folder: Path, runs: int) -> bool:
    jobs = Jobs(folder)
    (folder / "train.py").write_text(SCRIPT)
    context = EngineContext(controls=jobs, clock=MonotonicClock(), root=folder / "engine")
    agent = Agent(context.root, "here", devices=CpuSlots(1))
    engine = FleetEngine(context, HereFleet(agent))
    await engine.adopt([])
    assert agent.session is not None
    warm = agent.session.machine.warm
    warm.prepare_after_s = 0.0
    begun = asyncio.get_running_loop().time()
    await engine.carry_out([Start(1, "first", Allocation((Device("here", 0),)))])
    while not any(each.ready for each in warm._templates.values()):
        await asyncio.sleep(0.05)
        await asyncio.to_thread(warm._swept)
        assert asyncio.get_running_loop().time() < begun + READY_WITHIN_S, "it was never ready"
    (folder / "go").touch()
    await jobs.ended.get()
    found: dict[str, list[tuple[list[float], float]]] = {"cold": [], "warm": []}
    for number in range(runs):
        for kind, ran in found.items():
            ran.append(await run(engine, jobs, f"{kind}-{number}", number + 2))
    await engine.close()
    return report(found)


def report(found: dict[str, list[tuple[list[float], float]]]) -> bool:
    medians = {
        kind: [statistics.median(phases[at] for phases, _ in runs) for at in range(len(PHASES))]
        for kind, runs in found.items()
    }
    cpu = {kind: statistics.median(cpu_s for _, cpu_s in runs) for kind, runs in found.items()}
    print(f"{'median seconds':16}{'cold':>10}{'warm':>10}{'ratio':>10}")
    for at, phase in enumerate(PHASES):
        cold, warm = medians["cold"][at], medians["warm"][at]
        print(f"{phase:16}{cold:10.3f}{warm:10.3f}{cold / max(warm, 1e-6):10.1f}")
    print(f"{'CPU seconds':16}{cpu['cold']:10.3f}{cpu['warm']:10.3f}")
    ratio = medians["cold"][-1] / medians["warm"][-1]
    print(f"order to first step: {ratio:.1f} times quicker (needed: {NEEDED:g})")
    return ratio >= NEEDED


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    folder = Path(tempfile.mkdtemp(prefix="treadle-warm-"))
    try:
        return 0 if asyncio.run(measure(folder, runs)) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
