"""A bench of the engine on Ray: the jobs of the contract, on a real cluster."""

import asyncio
import time
from pathlib import Path
from typing import ClassVar

from tests.engines.contract_jobs import commands, released
from tests.on_ray.cluster import BEGIN_WITHIN_S, NODES, RayCluster
from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Start
from treadle.core.errors import InvalidInputError
from treadle.core.ports import Engine
from treadle.engines.clusters.ray import fleet
from treadle.engines.clusters.ray.driver_process import DriverProcess
from treadle.engines.clusters.ray.ray_engine import ray_fleet
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.fleet.port import Fencing
from treadle.engines.node import processes
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.environment import TAG
from treadle.engines.registry import EngineContext
from treadle.testing.engine_bench import WITHIN_S, EngineBench, on

fleet.START_WITHIN_S = BEGIN_WITHIN_S + 20.0
SOON = Fencing(failover_s=4.0, margin_s=1.0)


def _end_all(root: Path) -> bool:
    """Kill what runs of a test, on all nodes; whether anything did."""
    folders = (AttemptFolders(root / "engine" / "nodes" / name) for name in NODES)
    ended = [processes.kill_tagged(TAG, f"{folder.instance}*") for folder in folders]
    return any(ended)


class RayBench(EngineBench):
    cannot: ClassVar = {"progress": "the controller fills in how far a job is"}
    fencing: ClassVar = SOON
    _before: ClassVar[list[Path]] = []  # of tests that are over

    def __init__(
        self, root: Path, cluster: RayCluster, driver: DriverProcess | None = None
    ) -> None:
        """driver: its own; by default the one that all tests share, which is not killed."""
        self.root, self.cluster, self._driver = root, cluster, driver
        super().__init__(commands(root))

    def make(self) -> Engine:
        context = EngineContext(
            controls=self.controls, clock=MonotonicClock(), root=self.root / "engine"
        )
        own = self._driver
        connect = self.cluster.connect if own is None else own.start
        kill = str if own is None else own.kill
        until = time.monotonic() + WITHIN_S
        while True:
            try:
                made = ray_fleet(
                    context, connect, kill=kill, fencing=self.fencing, look_every_s=0.1
                )
            except InvalidInputError as error:
                # A launch of the test before was under way when everything of it was ended.
                if "jobs of another Treadle run" not in str(error) or time.monotonic() > until:
                    raise
                while any(map(_end_all, self._before)):
                    pass
            else:
                return FleetEngine(context, made)

    async def lose_node(self) -> str:
        name = next(name for name in ("n1", "n2") if name not in self.cluster.lost)
        await self.order(Start(0, "long", on(name, 0)))
        await self.started("long", 0)
        await asyncio.to_thread(self.cluster.lose, name)
        return name

    async def return_node(self, name: str) -> None:
        await asyncio.to_thread(self.cluster.give_back, name)

    async def clear_away(self) -> None:
        await self.engine.close()
        if len(self.cluster.lost) > 1:  # No test needs all nodes, and a start costs seconds.
            await asyncio.to_thread(self.cluster.give_back_all)
        self._before.append(self.root)
        while _end_all(self.root):
            await asyncio.sleep(0.002)

    async def release(self, job: str, code: int = 0) -> None:
        released(self.root, job, code)
