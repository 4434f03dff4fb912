"""A controller that returns while no agent of its cluster has come yet."""

from pathlib import Path

from tests.control.asking import end_all, looked_at, runs
from tests.control.living import living
from tests.engines.fleet_world import FleetWorld, WorldFleet
from tests.telling import within
from tests.waiting import awaited
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.registry import EngineContext
from treadle.wire.jobs import State


@within(180)
async def test_a_controller_begins_although_no_agent_has_come(tmp_path: Path) -> None:
    """1. A job runs. 2. The next controller finds members without agents. 3. They come, and the job
    has gone on in its attempt.
    """
    world = FleetWorld(tmp_path / "nodes", ("n0", "n1"), slots=1)

    def engine(context: EngineContext) -> FleetEngine:
        return FleetEngine(context, WorldFleet(world))

    try:
        async with living(tmp_path, engine=engine) as live:
            job = await runs(live, "exec sleep 60", resumable=True)
        world.late = {"n0", "n1"}
        async with living(tmp_path, engine=engine) as live:
            await looked_at(live)
            assert live.status().free == 0
            world.late = set()
            for name in ("n0", "n1"):
                world.tell(world.joined(name))

            async def both_are_there() -> bool:
                return live.status().free == 1

            await awaited(both_are_there)
            found = (await live.job(job)).job
            assert (found.state, found.attempts) == (State.RUNNING, 1)
            await end_all(live)
    finally:
        await world.clear_away()
