"""What hangs does not hold a job, a time limit or the rest of the machine: deadlines of the engine.

The file system that hangs is real (hung_mount.py), and so are the processes that are stopped.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, telling
from tests.engines.groups import KINDS, containment
from tests.engines.hung_mount import hung_mount

from treadle.core.actions import Start, Stop
from treadle.core.events import JobFailed, JobFinished, JobStarted, JobStopped
from treadle.engines.agent import machine
from treadle.engines.agent.attempt_guard import Deadlines
from treadle.engines.node import processes
from treadle.engines.node.recorded_processes import alive

POLITE = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done"
SOON = Deadlines(
    first_s=0.0, meet_s=0.5, wake_s=0.5, slack_s=0.5, look_s=0.2, kill_again_s=0.1, leave_s=20.0
)


@asynccontextmanager
async def kept_stopped(pid: Callable[[], int | None]) -> AsyncIterator[None]:
    """Stop a process again and again, as a debugger would: SIGCONT does not help."""

    async def again() -> None:
        while True:
            if (found := pid()) is not None:
                with suppress(ProcessLookupError):
                    os.kill(found, signal.SIGSTOP)
            await asyncio.sleep(0.001)

    task = asyncio.create_task(again())
    try:
        yield
    finally:
        task.cancel()


@telling()
async def test_a10_a_job_whose_workdir_hangs_can_be_cancelled_and_other_devices_go_on(
    bench: Story, tmp_path: Path
) -> None:
    """1. The working directory hangs: the job does not begin, and this is said.
    2. It is cancelled. Its process cannot be killed, so it goes on holding its device, and why is
    said. 3. A job on the other device runs. 4. The file system is back: the stop is answered."""
    await bench.begin()
    bench.machine.deadlines = SOON
    with hung_mount(tmp_path / "mnt") as mount:
        bench.job("a", "true", workdir=str(mount.point / "work"), grace_s=0.2)
        await bench.order(Start(0, "a", on(0)))
        await bench.until(lambda: mount.requests)
        where = f"it waits for the file system {mount.point} (fuse)"
        await bench.until(lambda: bench.live("a").stuck.endswith(f"has not begun: {where}"))
        await bench.order(Stop(1, "a"))
        await bench.until(lambda: bench.live("a").stuck.endswith(f"does not die: {where}"))
        stuck = bench.live("a").stuck
        await bench.until(lambda: bench.engine.view()[0].devices[0].because == stuck)
        bench.job("b", "true")
        await bench.order(Start(2, "b", on(1)))
        assert await bench.event() == JobStarted("b", 2, 0.0, 1.0, attempt=1)
        assert await bench.event() == JobFinished("b", 2)
        mount.heal()
        assert await bench.event() == JobStopped("a", 1, 0.0)
        assert [ended.how for ended in bench.ends if ended.job == "a"] == ["stopped"]


@telling()
async def test_a10_the_time_limit_counts_while_the_workdir_hangs(
    bench: Story, tmp_path: Path
) -> None:
    await bench.begin()
    bench.machine.deadlines = SOON
    with hung_mount(tmp_path / "mnt") as mount:
        bench.job("a", "true", workdir=str(mount.point), grace_s=0.1, time_limit_s=0.3)
        await bench.order(Start(0, "a", on(0)))
        await bench.until(lambda: mount.requests)
        await bench.until(lambda: "does not die" in bench.live("a").stuck)
        mount.heal()
        assert isinstance(await bench.event(), JobFailed)
        assert [ended.how for ended in bench.ends] == ["time-limit"]


@telling()
async def test_a10_a_stopped_supervisor_is_woken_by_a_cancel_and_its_job_gets_its_grace(
    bench: Story,
) -> None:
    bench.job("a", "sh", "-c", POLITE)
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await bench.until(lambda: "up" in bench.log("a"))
    os.kill(bench.supervisor("a").pid, signal.SIGSTOP)
    await bench.order(Stop(1, "a"))
    assert await bench.event() == JobStopped("a", 1, 0.0)
    assert bench.log("a").endswith("bye\n")


@pytest.mark.parametrize("kind", KINDS)
@telling()
async def test_a10_a_supervisor_that_cannot_be_woken_is_killed_with_its_job(
    bench: Story, kind: str
) -> None:
    await bench.begin()
    with containment(kind) as contained:
        bench.machine.deadlines, bench.machine.groups.containment = SOON, contained
        bench.job("a", "sh", "-c", "echo $$; exec sleep 600", grace_s=0.2)
        await bench.order(Start(0, "a", on(0)))
        await bench.event()
        await bench.until(lambda: bench.log("a").endswith("\n"))
        pid = int(bench.log("a"))
        rank = processes.ProcessId(pid, processes.start_of(pid) or 0)
        supervisor = bench.supervisor("a")
        async with kept_stopped(lambda: supervisor.pid if alive([supervisor]) else None):
            await bench.order(Stop(1, "a"))
            assert await bench.event() == JobStopped("a", 1, 0.0)
            assert alive([rank]) == []
        await bench.until(lambda: not alive([supervisor]))


@telling()
async def test_a10_the_time_limit_is_enforced_although_the_supervisor_is_stopped(
    bench: Story,
) -> None:
    await bench.begin()
    bench.machine.deadlines = SOON
    bench.job("a", "sleep", "600", grace_s=0.2, time_limit_s=0.5)
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    supervisor = bench.supervisor("a")
    async with kept_stopped(lambda: supervisor.pid if alive([supervisor]) else None):
        assert isinstance(await bench.event(), JobFailed)
    assert [ended.how for ended in bench.ends] == ["time-limit"]


@telling()
async def test_a10_a_restarted_engine_enforces_the_time_limit_of_a_stopped_supervisor(
    bench: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.job("a", "sleep", "600", grace_s=0.2, time_limit_s=1.0)
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    supervisor = bench.supervisor("a")
    os.kill(supervisor.pid, signal.SIGSTOP)
    await bench.engine.close()
    bench.fresh_engine()
    monkeypatch.setattr(machine, "USUAL", SOON)
    found = bench.folder("a")
    await bench.engine.adopt([])  # No job knows it: a stray, which is stopped as well.
    await bench.until(lambda: not bench.folders.live())
    assert alive([supervisor]) == []
    assert '"cause": "stopped"' in (found / "status.json").read_text()


def fork_server_of(bench: Story) -> int:
    process = bench.machine.fork_server._process
    assert process is not None
    return process.pid


@telling()
async def test_a10_a_stopped_fork_server_is_woken_and_the_job_runs_once(
    bench: Story, tmp_path: Path
) -> None:
    await bench.begin()
    bench.machine.deadlines = SOON
    bench.machine.fork_server.start()
    os.kill(fork_server_of(bench), signal.SIGSTOP)
    bench.job("a", "sh", "-c", "echo ran >> ran")
    await bench.order(Start(0, "a", on(0)))
    assert await bench.event() == JobStarted("a", 0, 0.0, 1.0, attempt=1)
    assert await bench.event() == JobFinished("a", 0)
    assert (tmp_path / "ran").read_text() == "ran\n"


@telling()
async def test_a10_a_fork_server_that_cannot_be_woken_is_replaced_and_no_attempt_is_charged(
    bench: Story, tmp_path: Path
) -> None:
    await bench.begin()
    bench.machine.deadlines = SOON
    bench.machine.fork_server.start()
    hung = fork_server_of(bench)
    process = processes.ProcessId(hung, processes.start_of(hung) or 0)
    for name in ("a", "b"):
        bench.job(name, "sh", "-c", f"echo {name} >> ran")
    async with kept_stopped(lambda: hung if alive([process]) else None):
        await bench.order(Start(0, "a", on(0)), Start(1, "b", on(1)))
        ends = [await bench.ended(), await bench.ended()]
    assert sorted(map(str, ends)) == sorted(map(str, [JobFinished("a", 0), JobFinished("b", 1)]))
    assert [(ended.attempt, ended.how) for ended in bench.ends] == [(1, "exited")] * 2
    assert sorted((tmp_path / "ran").read_text().split()) == ["a", "b"]


@telling()
async def test_a10_a_launch_whose_fork_server_is_killed_is_launched_again(
    bench: Story, tmp_path: Path
) -> None:
    await bench.begin()
    bench.machine.fork_server.start()
    os.kill(fork_server_of(bench), signal.SIGSTOP)
    bench.job("a", "sh", "-c", "echo ran >> ran")
    await bench.order(Start(0, "a", on(0)))
    await bench.until(lambda: bench.lives("a"))
    os.kill(fork_server_of(bench), signal.SIGKILL)  # The order dies with it.
    assert await bench.event() == JobStarted("a", 0, 0.0, 1.0, attempt=1)
    assert await bench.event() == JobFinished("a", 0)
    assert (tmp_path / "ran").read_text() == "ran\n"
