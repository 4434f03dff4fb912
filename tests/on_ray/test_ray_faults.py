"""What dies around jobs on Ray while they run: agents, the driver; and who else wants the nodes."""

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.on_ray.bench import RayBench
from tests.on_ray.cluster import HEAD, RayCluster
from tests.shared import thorough
from treadle.core.actions import Start, Stop
from treadle.core.attempt import How
from treadle.core.errors import InvalidInputError
from treadle.core.ports import Engine
from treadle.engines.clusters.ray import fleet
from treadle.engines.clusters.ray.driver import ATTEND_WITHIN_S
from treadle.engines.clusters.ray.driver_process import DriverProcess
from treadle.engines.clusters.ray.fleet import RayFleet
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.fleet.gang import GRANT_OVER
from treadle.engines.fleet.port import Fencing
from treadle.engines.fleet.silent_nodes import UNCONFIRMED
from treadle.engines.node import processes
from treadle.testing.engine_bench import HERE, on

pytestmark = thorough

HOLDS_ONE = """
import sys, ray
from ray.util.placement_group import placement_group
ray.init(address=sys.argv[1], _node_ip_address="127.0.0.1", log_to_driver=False)
node, = [row["NodeID"] for row in ray.nodes() if row["Alive"] and row["NodeName"] == "n0"]
held = placement_group([{"CPU": 1}], bundle_label_selector=[{"ray.io/node-id": node}])
print("got", held.wait(30), flush=True)
sys.stdin.read()
"""
OTHER_WORK = """
import sys, ray
from ray.util.placement_group import placement_group
ray.init(address=sys.argv[1], _node_ip_address="127.0.0.1", log_to_driver=False)
print("got", placement_group([{"CPU": 1}]).wait(1))
"""


def tell(
    bench: Callable[[], RayBench], story: Callable[[RayBench], Coroutine[Any, Any, None]]
) -> None:
    async def whole() -> None:
        made = bench()
        try:
            await asyncio.wait_for(story(made), 120)
        finally:
            await made.clear_away()

    asyncio.run(whole())


def holder_of(path: Path) -> int:
    """The process that has this file open, and is not this one."""
    for fd in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if fd.readlink() == path and int(fd.parts[2]) != os.getpid():
                return int(fd.parts[2])
        except OSError:
            continue
    raise AssertionError(f"nobody has {path}")


def children_with(word: bytes) -> list[int]:
    return [
        pid
        for pid in processes.all_pids()
        if processes.parent_of(pid) == os.getpid()
        and word in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def head_of(cluster: RayCluster) -> int:
    """The process of its GCS."""
    words = b"gcs_server", str(cluster.folder).encode()
    lines = {pid: Path(f"/proc/{pid}/cmdline") for pid in processes.all_pids()}
    (found,) = [pid for pid, line in lines.items() if all(w in _read(line) for w in words)]
    return found


def _read(path: Path) -> bytes:
    with suppress(OSError):
        return path.read_bytes()
    return b""


def epoch_of(engine: Engine) -> int:
    assert isinstance(engine, FleetEngine)
    assert isinstance(engine._fleet, RayFleet)
    return engine._fleet.epoch


def test_a_job_outlives_its_agent_and_the_next_one_takes_it_over(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    async def story(bench: RayBench) -> None:
        await bench.order(Start(0, "long", HERE))
        await bench.started("long", 0)
        lock = bench.root / "engine" / "nodes" / "n0" / "agent.lock"
        agent = holder_of(lock)
        os.kill(agent, signal.SIGKILL)
        await bench.order(Stop(1, "long"))
        await bench.end("long", 1)
        (ended,) = bench.ends("long")
        assert (ended.attempt, ended.how) == (1, How.STOPPED)
        assert holder_of(lock) != agent

    tell(lambda: RayBench(tmp_path, ray_nodes), story)


def test_an_agent_outlives_its_raylet_and_says_then_what_ended_meanwhile(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    async def story(bench: RayBench) -> None:
        await bench.order(Start(0, "held", on("n1", 0)))
        await bench.started("held", 0)
        agent = holder_of(bench.root / "engine" / "nodes" / "n1" / "agent.lock")
        began = processes.start_of(agent)
        await asyncio.to_thread(ray_nodes.lose, "n1")
        await bench.release("held", 3)
        await bench.return_node("n1")
        await bench.end("held", 0)
        assert [(ended.attempt, ended.code) for ended in bench.ends("held")] == [(1, 3)]
        assert processes.start_of(agent) == began

    class Patient(RayBench):
        fencing = Fencing()

    tell(lambda: Patient(tmp_path, ray_nodes), story)


def test_an_agent_that_hangs_is_started_again_and_its_job_runs_elsewhere(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    """1. A stopped process answers nothing and renews no grant: the supervisor ends the job.
    2. Its keeper kills it and starts another, which says so. 3. The job runs on another node.
    """

    async def story(bench: RayBench) -> None:
        await bench.order(Start(0, "long", HERE))
        await bench.started("long", 0)
        lock = bench.root / "engine" / "nodes" / "n0" / "agent.lock"
        agent = holder_of(lock)
        os.kill(agent, signal.SIGSTOP)
        async with asyncio.timeout(60):
            while not bench.ends("long"):
                await asyncio.sleep(0.05)
        (ended,) = bench.ends("long")
        assert (ended.attempt, ended.how, ended.node_lost) == (1, How.LOST, True)
        assert ended.error == GRANT_OVER.format("n0")
        assert processes.start_of(agent) is None
        await bench.order(Start(1, "long", on(HEAD, 0)))
        await bench.started("long", 1)
        assert len(bench.ends("long")) == 1
        await bench.order(Start(2, "short", HERE))
        await bench.end("short", 2)

    tell(lambda: RayBench(tmp_path, ray_nodes), story)


def test_nothing_is_started_while_the_head_of_ray_hangs(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    """1. Leases run out, and jobs with them. 2. Agents answer, and say so: all nodes are closed.
    3. What is ordered meanwhile goes back to the queue. 4. The head goes on, and so do all nodes.
    """

    async def story(bench: RayBench) -> None:
        def closed() -> set[str]:
            shut = bench.engine._closed.items()  # type: ignore[attr-defined]
            return {device.node for device, why in shut if why.cause == UNCONFIRMED}

        async def until(true: Callable[[], bool]) -> None:
            async with asyncio.timeout(60):
                while not true():
                    await asyncio.sleep(0.05)

        await bench.order(Start(0, "long", HERE))
        await bench.started("long", 0)
        head = head_of(ray_nodes)
        os.kill(head, signal.SIGSTOP)
        try:
            await until(lambda: bool(bench.ends("long")))
            (ended,) = bench.ends("long")
            assert (ended.how, ended.error) == (How.LOST, GRANT_OVER.format("n0"))
            assert "n0" in closed()
            await bench.order(Start(1, "long", HERE))
            await until(lambda: len(bench.ends("long")) == 2)
            assert (bench.ends("long")[1].how, bench.ends("long")[1].attempt) == (How.STOPPED, 0)
            await until(lambda: len(closed()) == len(bench.engine.nodes()))
            (view,) = [each for each in bench.engine.view() if each.name == "n0"]
            assert (view.health, view.because) == (
                UNCONFIRMED,
                "Ray's head does not answer node n0",
            )
        finally:
            os.kill(head, signal.SIGCONT)
        await until(lambda: not closed())
        await bench.order(Start(2, "short", HERE))
        await bench.end("short", 2)
        assert not [fact for fact in bench.facts if type(fact).__name__ == "NodeLost"]

    tell(lambda: RayBench(tmp_path, ray_nodes), story)


def test_another_driver_is_started_when_it_dies_and_no_node_is_lost(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    async def story(bench: RayBench) -> None:
        await bench.order(Start(0, "held", HERE))
        await bench.started("held", 0)
        (driver,) = children_with(b"treadle.engines.clusters.ray.driver")
        os.kill(driver, signal.SIGKILL)
        await bench.release("held", 3)
        await bench.end("held", 0)
        assert [ended.code for ended in bench.ends("held")] == [3]
        assert not [fact for fact in bench.facts if type(fact).__name__ == "NodeLost"]

    own = DriverProcess(ray_nodes.address, ray_nodes.environment)
    tell(lambda: RayBench(tmp_path, ray_nodes, own), story)


def test_a_driver_that_hangs_is_killed_and_the_next_one_goes_on_in_its_place(
    tmp_path: Path,
    ray_nodes: RayCluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No agent is called silent, no node closed, and the epoch stays."""
    monkeypatch.setattr(fleet, "HUNG_BEATS", 8)

    async def story(bench: RayBench) -> None:
        await bench.order(Start(0, "held", HERE))
        await bench.started("held", 0)
        assert isinstance(bench.engine, FleetEngine)
        assert isinstance(bench.engine._fleet, RayFleet)
        (driver,) = children_with(b"treadle.engines.clusters.ray.driver")
        os.kill(driver, signal.SIGSTOP)
        await bench.release("held", 3)
        await bench.end("held", 0)
        assert processes.start_of(driver) is None
        assert bench.engine._fleet._held == bench.engine._fleet.epoch
        assert [ended.code for ended in bench.ends("held")] == [3]
        kinds = {type(fact).__name__ for fact in bench.facts}
        assert not kinds & {"NodeLost", "DeviceClosed"}

    own = DriverProcess(ray_nodes.address, ray_nodes.environment)
    with caplog.at_level(logging.ERROR, "treadle"):
        tell(lambda: RayBench(tmp_path, ray_nodes, own), story)
    said = "the process that speaks to Ray has said nothing for 8 s: it is killed, and another"
    assert [line for line in caplog.messages if line.startswith(said)]


def test_other_ray_work_gets_nothing_and_a_second_controller_is_refused(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    async def story(bench: RayBench) -> None:
        await bench.order(Start(0, "short", HERE))
        await bench.end("short", 0)
        with pytest.raises(InvalidInputError) as refused:
            RayBench(tmp_path / "second", ray_nodes)
        assert "another Treadle manages this Ray cluster: " in str(refused.value)
        assert f"state folder {bench.root / 'engine'};" in str(refused.value)
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", OTHER_WORK, ray_nodes.address],
            env={**os.environ, **ray_nodes.environment},
            capture_output=True,
            text=True,
        )
        assert "got False" in done.stdout, done.stderr

    tell(lambda: RayBench(tmp_path, ray_nodes), story)


def test_another_treadle_is_refused_while_jobs_of_one_that_left_run(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    """Its agents would no longer be confirmed, and its jobs killed while others begin there."""

    async def story(bench: RayBench) -> None:
        await bench.order(Start(0, "long", HERE))
        await bench.started("long", 0)
        epoch = epoch_of(bench.engine)
        await bench.engine.close()
        with pytest.raises(InvalidInputError) as refused:
            await asyncio.to_thread(RayBench, tmp_path / "second", ray_nodes)
        assert str(refused.value) == (
            "jobs of another Treadle run on this Ray cluster, on n0: start that one, with "
            f"--state {bench.root / 'engine'}, or end them with python -m "
            "treadle.engines.clusters.ray leave ADDRESS"
        )
        bench.engine = await asyncio.to_thread(bench.make)  # That one is not refused.
        assert epoch_of(bench.engine) == epoch + 1, "the other one has not had the lease"

    tell(lambda: RayBench(tmp_path, ray_nodes), story)


def test_the_folder_of_a_treadle_that_left_may_be_gone(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    async def story(bench: RayBench) -> None:
        await bench.order(Start(0, "short", HERE))
        await bench.end("short", 0)
        await bench.engine.close()
        shutil.rmtree(bench.root / "engine")
        second = await asyncio.to_thread(RayBench, tmp_path / "second", ray_nodes)
        await second.order(Start(0, "short", HERE))
        await second.end("short", 0)
        await second.clear_away()

    tell(lambda: RayBench(tmp_path / "first", ray_nodes), story)


def test_a_node_of_which_other_ray_work_holds_a_part_is_said_to_be_not_used(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    """It is not waited for as an agent is that comes late, and used once it is free."""
    own = {**os.environ, **ray_nodes.environment}
    leave = [sys.executable, "-m", "treadle.engines.clusters.ray", "leave", ray_nodes.address]
    subprocess.run(leave, env=own, capture_output=True, check=True)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE, ray_nodes.address],
        env=own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    async def story(bench: RayBench) -> None:
        (view,) = [each for each in bench.engine.view() if each.name == "n0"]
        said = "node n0 is not used: other Ray work holds a part of its 3 CPUs"
        assert (view.health, view.warning) == ("unused", said)
        assert time.monotonic() - began < ATTEND_WITHIN_S
        other.communicate("")
        await bench.order()
        async with asyncio.timeout(60):
            while [each.health for each in bench.engine.view() if each.name == "n0"] != ["answers"]:
                await asyncio.sleep(0.05)

    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "got True\n"
        began = time.monotonic()
        tell(lambda: RayBench(tmp_path, ray_nodes), story)
    finally:
        other.kill()
        other.wait()
