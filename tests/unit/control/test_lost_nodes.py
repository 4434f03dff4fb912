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
