"""Nodes that are lost while a job still holds devices there, and controllers that start again."""

import time
from pathlib import Path

from tests.unit.control.memory import ME, Bench, play_on
from treadle.core.cluster import Node
from treadle.core.events import NodeLost
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import State


def test_a_node_that_was_lost_before_a_restart_is_not_used_after_it(tmp_path: Path) -> None:
    """1. A node is lost. 2. The daemon restarts before the job there has ended. 3. It ends."""
    world = MemoryWorld.of(Node("a", 2, "none"), Node("b", 1, "none"))
    jobs: list[str] = []
    over_at: list[float] = []

    async def first(here: Bench) -> None:
        jobs.append(await here.submit("forever", devices="2"))
        await here.reached(jobs[0], State.RUNNING)
        here.memory.hang(jobs[0])  # Whether it runs on is not known yet.
        del world.nodes["a"]
        here.live.context.inbox.tell(NodeLost("a"))
        await here.settle()
        over_at.append(time.time())

    async def second(here: Bench) -> None:
        await here.settle()
        assert [node.name for node in here.live.context.scheduler.cluster.nodes] == ["b"]
        assert here.live.status().devices == 1
        (lost,) = [each for each in (await here.live.spells()).nodes if each.name == "a"]
        assert lost.to_at is not None
        assert lost.to_at < over_at[0], "it was lost before the restart"
        await here.live.cancel(ME, jobs[0])
        here.memory.release(jobs[0])
        await here.reached(jobs[0], State.CANCELLED)

    play_on(world, first, tmp_path)
    play_on(world, second, tmp_path)


def test_a_node_that_is_lost_while_its_job_is_resized_is_named(tmp_path: Path) -> None:
    """1. A job on two nodes is ordered to leave one. 2. That one is lost before the job has."""
    world = MemoryWorld.of(Node("a", 2, "none"), Node("b", 2, "none"))

    async def story(here: Bench) -> None:
        job = await here.submit("forever", devices="1..4", resumable=True)
        await here.reached(job, State.RUNNING)
        here.memory.hang(job)
        await here.submit("forever", devices="1..4", resumable=True)
        await here.reached(job, State.RESIZING)
        row = here.live.context.scheduler.jobs[job]
        assert row.allocation is not None
        (left,) = {"a", "b"} - set(row.allocation.nodes())
        del world.nodes[left]
        here.live.context.inbox.tell(NodeLost(left))
        await here.settle()
        assert here.state(job) is State.RESIZING
        assert (await here.live.why(job)).because == (
            f"node {left} was lost; what is left of it is being stopped; then it runs again on "
            "2 devices, from the newest checkpoint that is left"
        )

    play_on(world, story, tmp_path, policy="afs+steady?run_s=0&rest_s=0")
