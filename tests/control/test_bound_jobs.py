"""A live controller over nodes that share no file system: a job that cannot leave its node."""

import asyncio
from pathlib import Path

from tests.control.living import ME, bash, ended, living, until, view_of
from tests.engines.fleet_world import FleetWorld, WorldFleet
from treadle.core.job import CHECKPOINTS
from treadle.core.ports import Engine
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.registry import EngineContext
from treadle.wire.jobs import State

WRITES = 'test -e "$TREADLE_CHECKPOINT_DIR/w" && exit 0; touch "$TREADLE_CHECKPOINT_DIR/w"; '
WAITS = "sleep 86400 & wait"


def test_a_job_waits_for_the_node_that_has_its_checkpoints_and_says_so(tmp_path: Path) -> None:
    """1. It is held, which leaves a checkpoint. 2. Its node takes no more work, and another
    one is free. 3. It waits and says why. 4. Its node is open again: it goes on there.
    """

    async def story() -> None:
        world = FleetWorld(tmp_path / "nodes", ("n0", "n1"), slots=1, apart=True)

        def engine(context: EngineContext) -> Engine:
            return FleetEngine(context, WorldFleet(world))

        try:
            async with living(tmp_path, engine=engine) as live:
                job = (await live.submit(ME, bash(WRITES + WAITS, resumable=True))).id
                await until(live, State.RUNNING, jobs=(job,))
                (device,) = (await view_of(live, job)).devices
                home = device.rpartition(":")[0]
                place = tmp_path / "nodes" / home / "checkpoints"
                while not list(place.glob("*/w")):
                    await asyncio.sleep(0.01)
                await live.hold(ME, job)
                await until(live, State.HELD, jobs=(job,))
                await live.manage(ME, device, "avoid")
                await live.release(ME, job)
                while (why := await live.why(job)).code != "bound":
                    await asyncio.sleep(0.01)
                assert why.numbers == {"nodes": (home,), "asked": 1, "free": 0, "by": CHECKPOINTS}
                await live.order_node(ME, home, "drain")
                await live.manage(ME, device, "manage")
                while (why := await live.why(job)).code != "bound-away":
                    await asyncio.sleep(0.01)
                assert (why.numbers["nodes"], why.numbers["away"]) == ((home,), "drained")
                assert why.change == f"treadle nodes undrain {home}"
                assert why.estimate is None
                await live.order_node(ME, home, "undrain")
                (view,) = await ended(live, job)
                assert view.state is State.SUCCEEDED
                attempts = (await live.job(job)).attempts
                ran = [(each.devices, each.code) for each in attempts if each.code is not None]
                assert ran == [((device,), 143), ((device,), 0)]
        finally:
            await world.clear_away()

    asyncio.run(asyncio.wait_for(story(), 100))
