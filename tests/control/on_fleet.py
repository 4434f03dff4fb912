"""A live controller over a fleet of this process: its nodes can be cut off and mended."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.control.asking import end_all
from tests.control.living import living, text_of
from tests.engines.fleet_world import FleetWorld, WorldFleet
from tests.telling import told_by
from treadle.control.api import LiveService
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.registry import EngineContext

Story = Callable[[LiveService, FleetWorld], Awaitable[None]]


def on_fleet(
    story: Story,
    root: Path,
    nodes: tuple[str, ...] = ("n0", "n1", "n2"),
    *,
    apart: bool = False,
    policy: str = "backfill",
) -> None:
    """apart: nodes have no file system in common."""

    async def whole() -> None:
        world = FleetWorld(root / "nodes", nodes, slots=2, apart=apart)

        def engine(context: EngineContext) -> FleetEngine:
            return FleetEngine(context, WorldFleet(world))

        try:
            async with living(root, engine=engine, policy=policy) as live:
                await story(live, world)
                await end_all(live)
        finally:
            await world.clear_away()

    asyncio.run(asyncio.wait_for(whole(), 120))


telling_on_fleet = told_by(on_fleet, gives=2)


async def said(live: LiveService, job: str, text: str) -> None:
    """Until the newest attempt has printed that."""
    while text not in await text_of(live, job):
        await asyncio.sleep(0.01)


async def nodes_of(live: LiveService, job: str) -> set[str]:
    return {device.partition(":")[0] for device in (await live.job(job)).job.devices}
