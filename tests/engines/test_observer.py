"""What the local engine measures of jobs from outside, with real processes."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, tell, telling

from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Start
from treadle.core.launch import AttemptId
from treadle.core.machine import Measurement
from treadle.engines.node.devices import Activity
from treadle.engines.node.observer import Observer, Watched
from treadle.engines.node.process_load import ProcessLoad
from treadle.testing.gpus import FakeGpus

SPIN = "print('go', flush=True)\nwhile True: pass"
HOLD = "data = bytearray(64 << 20)\nprint('held', flush=True)\nimport sys; sys.stdin.read()"
MIB = 2**20


class Pids:
    """A group of processes that a test has started."""

    def __init__(self, *pids: int) -> None:
        self.all = list(pids)

    def pids(self) -> list[int]:
        return self.all


@contextmanager
def running(code: str) -> Iterator["subprocess.Popen[bytes]"]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


async def measured(bench: Story, job: str) -> Measurement:
    await bench.machine.observer.look()
    return next(each for each in bench.machine.measurements() if each.job == job)


def test_memory_of_a_process_is_what_it_has_resident() -> None:
    with running(HOLD) as process:
        load = ProcessLoad(Pids(process.pid))  # type: ignore[arg-type]
        use = load.look(0.0)
        assert use is not None
        assert 64 * MIB <= use.memory_bytes < 512 * MIB
        assert use.processes == 1
        load.close()


def test_cpu_time_of_a_process_that_ended_stays_counted() -> None:
    with running("sum(range(20_000_000)); print('done', flush=True); input()") as process:
        load = ProcessLoad(Pids(process.pid))  # type: ignore[arg-type]
        before = load.look(0.0)
        assert before is not None
        assert before.cpu_s > 0
    after = load.look(1.0)
    assert after is not None
    assert after.cpu_s == before.cpu_s
    assert (after.processes, after.memory_bytes) == (0, 0)


def test_a_process_that_is_not_ours_to_see_is_not_measured() -> None:
    assert ProcessLoad(Pids()).look(0.0) is None  # type: ignore[arg-type]


@telling(slots=2)
async def test_a_cpu_slot_is_busy_as_far_as_its_cores_are_used(bench: Story) -> None:
    """1. A job spins and another sleeps. 2. Each is measured: cores, memory, busy share."""
    bench.job("spins", "python", "-c", SPIN)
    bench.job("sleeps", "sleep", "600")
    await bench.order(Start(0, "spins", on(0)), Start(1, "sleeps", on(1)))
    await bench.event()
    await bench.event()
    await bench.machine.observer.look()

    def seen(job: str) -> Measurement:
        return next(each for each in bench.engine.measurements() if each.job == job)

    # A further look so soon could fall between two ticks of the kernel's clock and see nothing.
    await bench.until(lambda: (seen("spins").load.cores or 0.0) > 0.1)
    await bench.until(lambda: seen("sleeps").busy is not None)
    spins, sleeps = seen("spins"), seen("sleeps")
    assert spins.busy is not None
    assert spins.busy == spins.load.busy
    assert 0.0 < spins.busy <= 1.0
    assert sleeps.busy is not None
    assert sleeps.busy < 0.1
    assert spins.load.memory_gib is not None
    assert spins.load.memory_gib > 0.001
    assert spins.alone
    assert spins.at > 0


def test_gpu_memory_is_of_the_jobs_own_processes_and_energy_is_shared(tmp_path: Path) -> None:
    """1. Two jobs share a GPU, and NVML lists a process of one. 2. The counter rises by 100 J."""

    async def story(bench: Story) -> None:
        bench.job("a", "sh", "-c", "exec sleep 600")
        bench.job("b", "sh", "-c", "exec sleep 600")
        await bench.order(Start(0, "a", on(0)), Start(1, "b", on(0, turn=1)))
        await bench.event()
        await bench.event()
        holders = {live.job: live for live in bench.machine.holders.by_slot.values()}
        pid = await bench.until(lambda: holders["a"].scope.pids()[-1:])
        fake.put(0, *pid, used_gib=30.0)
        fake.set_busy(0.8)
        fake.energy_j = 1000.0
        await bench.machine.observer.look()
        fake.energy_j = 1100.0
        a, b = await measured(bench, "a"), await measured(bench, "b")
        assert (a.alone, b.alone) == (False, False)
        assert a.load.device_memory_gib == 1.0
        assert b.load.device_memory_gib is None, "it cannot be told apart"
        assert a.load.busy is None, "the busy share of a shared GPU is nobody's"
        assert a.busy == pytest.approx(0.4)
        assert a.energy_j == pytest.approx(50.0)
        assert b.energy_j == pytest.approx(50.0)

    fake = FakeGpus(1)
    tell(tmp_path, story, source=fake)


def test_closing_waits_for_a_look_that_a_thread_has_begun() -> None:
    """1. A look hangs in the driver. 2. The observer is closed, and is not before the look is over:
    it reads files that are closed then."""

    class Hangs(FakeGpus):
        def activity(self) -> tuple[Activity, ...]:
            begun.set()
            goes_on.wait(60.0)
            over.append(True)
            return super().activity()

    begun, goes_on, over = threading.Event(), threading.Event(), list[bool]()

    async def story() -> None:
        watched = Watched(AttemptId("a", 1), Pids(), (0,), 1.0)  # type: ignore[arg-type]
        observer = Observer(Hangs(1), MonotonicClock(), lambda: [watched])
        observer.begin()
        await asyncio.to_thread(begun.wait, 60.0)
        closing = asyncio.create_task(observer.close())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not closing.done()
        goes_on.set()
        await closing
        assert over == [True]

    asyncio.run(story())


def test_a_job_that_is_alone_has_the_memory_of_its_gpu(tmp_path: Path) -> None:
    async def story(bench: Story) -> None:
        bench.job("a", "sleep", "600")
        await bench.order(Start(0, "a", on(0)))
        await bench.event()
        fake.put(0, used_gib=12.5)  # In a container NVML lists no process of ours.
        fake.set_busy(0.7)
        found = await measured(bench, "a")
        assert found.load.device_memory_gib == 12.5
        assert found.load.busy == 0.7
        assert bench.engine.nodes()[0].device_memory_gib == 80.0

    fake = FakeGpus(1)
    tell(tmp_path, story, source=fake)
