"""A live controller resizes an elastic job over the nodes of a cluster, in one attempt."""

import asyncio
import sys
from pathlib import Path

from tests.control.living import ME, bash, until
from tests.control.on_fleet import nodes_of, telling_on_fleet
from tests.engines.fleet_world import FleetWorld
from treadle.control.api import LiveService
from treadle.wire.jobs import JobRequest, State

MEMBER = str(Path(__file__).parents[1] / "engines" / "flexible.py")


async def _has(live: LiveService, job: str, size: int) -> None:
    """Until it holds so many devices, and has said so."""
    while True:
        view = (await live.job(job)).job
        if len(view.devices) == size and view.state is State.RUNNING:
            return
        await asyncio.sleep(0.02)


async def _story(live: LiveService) -> None:
    """1. It has all three nodes. 2. Two jobs want a node each. 3. They are over: it grows again."""
    request = JobRequest(
        command=(sys.executable, MEMBER, "size,devices"),
        devices="1..6",
        ranks="device",
        resumable=True,
    )
    job = (await live.submit(ME, request)).id
    await _has(live, job, 6)
    assert await nodes_of(live, job) == {"n0", "n1", "n2"}
    while not (await live.job(job)).changes:
        await asyncio.sleep(0.02)
    others = [(await live.submit(ME, bash("sleep 60", devices="2"))).id for _ in range(2)]
    await until(live, State.RUNNING, jobs=tuple(others))
    await _has(live, job, 2)
    for other in others:
        await live.cancel(ME, other)
    await _has(live, job, 6)
    assert (await live.job(job)).job.attempts == 1


@telling_on_fleet(policy="weave-l+live?restart_s=0.05")
async def test_weave_shrinks_a_job_over_nodes_and_lets_it_grow_again(
    live: LiveService, world: FleetWorld
) -> None:
    await _story(live)


@telling_on_fleet(policy="afs+live?restart_s=0.05")
async def test_afs_does_so_too(live: LiveService, world: FleetWorld) -> None:
    await _story(live)
