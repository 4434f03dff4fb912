"""Treadle is made to leave its cluster while jobs run."""

from tests.engines.fleet_story import FleetStory, spread, tell
from tests.engines.fleet_world import InProcessLink

from treadle.core.actions import Start
from treadle.core.attempt import How
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.testing.engine_bench import row


def test_what_ran_then_was_not_lost_with_its_node(tmp_path):
    """1. The agents are asked what runs. 2. They end. 3. So do the ranks. 4. Treadle returns."""

    async def story(bench: FleetStory) -> None:
        bench.job("a", "sleep", "600")
        await bench.order(Start(0, "a", spread("n1", each=2)))
        await bench.started("a", 0)
        await bench.crash()
        world = bench.world
        agent = world.links["n1"].agent
        assert agent.running() == {"a": 2}
        agent.note_departure()
        world.away.add("n1")
        await agent.close()
        await bench.until(lambda: not bench.runs_on("a"))
        world.links["n1"] = InProcessLink(world._agent("n1"))
        world.away.discard("n1")
        bench.fresh_engine()
        await bench.engine.adopt(
            [row("a", Phase.RUNNING, spread("n1", each=2))], [AttemptId("a", 1)]
        )
        end = await bench.ended("a", 0)
        assert (end.how, end.node_lost) == (How.LOST, True)
        assert end.error == "Treadle was made to leave the cluster"
        await bench.until(lambda: not (world.root / "n1" / "departure").exists())
        await bench.until(lambda: not any(view.warning for view in bench.engine.view()))

    tell(tmp_path, story, nodes=("n0", "n1"))
