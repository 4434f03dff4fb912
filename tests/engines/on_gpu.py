"""The local engine on a machine with a real GPU: `python -m tests.engines.on_gpu`.

Needs torch beside Treadle. It runs jobs on the first GPU, puts a foreign process there, and prints
what it sees; it fails at the first thing that is not so.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.engines.bench import agent_of, machine_of

from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import (
    AttemptEnded,
    DeviceClosed,
    DeviceOpened,
    Event,
    JobFinished,
    JobStarted,
    JobStopped,
)
from treadle.core.job_report import JobReport
from treadle.core.launch import Launch
from treadle.core.machine import DeviceView
from treadle.engines.clusters.here import here
from treadle.engines.node.gpus import NvmlGpus
from treadle.engines.registry import EngineContext

HOLD = """
import os, sys, time, torch
gib, seconds, word = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
held = torch.empty(int(gib * 2**30), dtype=torch.uint8, device="cuda")
a = torch.randn(4096, 4096, device="cuda")
print(word, os.environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count(), flush=True)
if word == "daemon" and os.fork() == 0:
    os.setsid()
    time.sleep(1000)
end = time.monotonic() + seconds
while time.monotonic() < end:
    a = a @ a / a.norm()
    torch.cuda.synchronize()
"""


class Jobs:
    """Jobs are their names: "hold GIB SECONDS WORD"."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, int], int] = {}
        self.commands: dict[str, tuple[str, ...]] = {}
        self.inbox: asyncio.Queue[Event] = asyncio.Queue()
        self.devices: list[DeviceClosed | DeviceOpened] = []

    def launch(self, job: str, action: int, allocation: Allocation) -> Launch:
        number = self.attempts.setdefault((job, action), 1 + len(self.attempts))
        command = (sys.executable, "-c", HOLD, *self.commands[job])
        return Launch(
            job=job,
            attempt=number,
            command=command,
            workdir="/",
            ranks=1,
            uid=os.geteuid(),
            grace_s=5.0,
        )

    def tell(self, *facts: Event) -> None:
        for fact in facts:
            if isinstance(fact, DeviceClosed | DeviceOpened):
                self.devices.append(fact)
            else:
                self.inbox.put_nowait(fact)

    def report(self, *reports: JobReport) -> None:
        raise AssertionError(reports)


class Stand:
    def __init__(self, root: Path) -> None:
        self.gpus = NvmlGpus()
        self.jobs = Jobs()
        context = EngineContext(controls=self.jobs, clock=MonotonicClock(), root=root)
        self.engine = here(context, devices=self.gpus, node_name="here")
        self.orders = 0

    async def start(self, job: str, *words: str, turn: int = 0) -> None:
        self.jobs.commands[job] = words
        self.orders += 1
        place = Allocation((Device("here", 0),), turn=turn)
        await self.engine.carry_out([Start(self.orders, job, place)])

    async def stop(self, job: str) -> None:
        self.orders += 1
        await self.engine.carry_out([Stop(self.orders, job)])

    async def hear(self, kind: type, job: str, within_s: float = 90.0) -> float:
        """Wait for a report; how long it took."""
        begun = time.monotonic()

        async def heard() -> None:
            while True:
                event = await self.jobs.inbox.get()
                print("   ", event, flush=True)
                found = event.meaning if isinstance(event, AttemptEnded) else event
                if isinstance(found, kind) and getattr(found, "job", "") == job:
                    return

        await asyncio.wait_for(heard(), within_s)
        return time.monotonic() - begun

    def say(self, what: str) -> None:
        device = self.engine.view()[0].devices[0]
        print(
            f"{what}: {device.state} {device.because!r} jobs {device.jobs} "
            f"memory {device.memory_used_gib} of {device.memory_gib} busy {device.busy} "
            f"foreign {device.foreign}",
            flush=True,
        )

    async def until(self, true: Callable[[], bool], within_s: float = 60.0) -> float:
        begun = time.monotonic()

        async def wait() -> None:
            while not true():
                await machine_of(self.engine).device_watch.look()
                await asyncio.sleep(0.2)

        await asyncio.wait_for(wait(), within_s)
        return time.monotonic() - begun

    def device(self) -> DeviceView:
        return self.engine.view()[0].devices[0]

    def log(self, job: str) -> str:
        found = sorted(agent_of(self.engine).folders.root.glob(f"jobs/{job}/*/rank-0.log"))
        return found[-1].read_text() if found else ""


async def story(root: Path) -> None:
    stand = Stand(root)
    print("driver", stand.gpus.driver, "uuids", stand.gpus.uuids, "node", stand.engine.nodes())
    await stand.engine.adopt([])
    await machine_of(stand.engine).device_watch.look()
    stand.say("at rest")
    chapters: list[Callable[[Stand], Awaitable[None]]] = [alone, stopped, shared, leftover, foreign]
    for chapter in chapters:
        print(f"-- {chapter.__name__}: {chapter.__doc__}", flush=True)
        await chapter(stand)
    await stand.engine.close()


async def alone(stand: Stand) -> None:
    """A job gets the GPU by UUID, is not foreign, and leaves it clean."""
    await stand.start("one", "4", "4", "plain")
    print("  started after", await stand.hear(JobStarted, "one"))
    await stand.until(lambda: (stand.device().memory_used_gib or 0) > 4)
    stand.say("  while it runs")
    assert stand.device().state == "held"
    assert not stand.device().foreign
    print("  finished after", await stand.hear(JobFinished, "one"))
    assert stand.gpus.uuids[0] in stand.log("one"), stand.log("one")
    print("  clean after", await stand.until(lambda: stand.device().state == "free"))
    stand.say("  afterwards")


async def stopped(stand: Stand) -> None:
    """A job is stopped in the middle; the next one waits for a clean device."""
    await stand.start("two", "8", "600", "long")
    await stand.hear(JobStarted, "two")
    await stand.until(lambda: (stand.device().memory_used_gib or 0) > 8)
    await stand.stop("two")
    print("  stopped after", await stand.hear(JobStopped, "two"))
    await stand.start("three", "1", "1", "next")
    await stand.hear(JobFinished, "three")
    print("  clean after", await stand.until(lambda: stand.device().state == "free"))


async def shared(stand: Stand) -> None:
    """Two jobs in two turns on the same GPU."""
    await stand.start("left", "2", "6", "left", turn=0)
    await stand.start("right", "2", "6", "right", turn=1)
    await stand.hear(JobStarted, "right")
    await stand.until(lambda: (stand.device().memory_used_gib or 0) > 4)
    stand.say("  together")
    assert set(stand.device().jobs) == {"left", "right"}
    await stand.hear(JobFinished, "right")
    await stand.until(lambda: stand.device().state == "free")


async def leftover(stand: Stand) -> None:
    """A job that forks a daemon holding GPU memory leaves nothing behind."""
    await stand.start("four", "6", "1", "daemon")
    await stand.hear(JobFinished, "four")
    print("  clean after", await stand.until(lambda: stand.device().state == "free"))
    assert (stand.device().memory_used_gib or 0) < 3, stand.device()


async def foreign(stand: Stand) -> None:
    """Another program uses the GPU: it is shown and closed, and opened when it has gone."""
    other = subprocess.Popen([sys.executable, "-c", HOLD, "5", "600", "foreign"])
    try:
        took = await stand.until(lambda: stand.device().state == "foreign", 90.0)
        print("  seen after", took)
        stand.say("  while they are there")
        assert [process.pid for process in stand.device().foreign] == [other.pid]
        assert isinstance(stand.jobs.devices[-1], DeviceClosed)
    finally:
        other.kill()
        other.wait()
    print("  gone after", await stand.until(lambda: stand.device().state == "free"))
    assert isinstance(stand.jobs.devices[-1], DeviceOpened)
    print("  reported", stand.jobs.devices)


if __name__ == "__main__":
    print("python", sys.version.split()[0], "pid", os.getpid())
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(asyncio.wait_for(story(Path(folder)), 420.0))
    print("all as expected")
