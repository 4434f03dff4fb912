"""The fleet engine keeps the contract of engines over wires to four agents, in this process.

One agent without a wire (test_local_contract.py) and Ray's four (tests/on_ray) keep it always.
"""

from pathlib import Path
from typing import ClassVar

import pytest
from tests.engines.contract_jobs import commands, released
from tests.engines.fleet_world import FleetWorld, WorldFleet
from tests.shared import thorough

from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Start
from treadle.core.ports import Engine
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.registry import EngineContext
from treadle.testing.engine_bench import EngineBench, on
from treadle.testing.engine_contract import EngineContract

NODES = ("n0", "n1", "n2", "n3")


class FleetBench(EngineBench):
    cannot: ClassVar = {"progress": "the controller fills in how far a job is"}

    def __init__(self, root: Path) -> None:
        self.root = root
        self.world = FleetWorld(root / "nodes", NODES)
        super().__init__(commands(root))

    def make(self) -> Engine:
        context = EngineContext(
            controls=self.controls, clock=MonotonicClock(), root=self.root / "engine"
        )
        context.root.mkdir(exist_ok=True)
        return FleetEngine(context, WorldFleet(self.world))

    async def clear_away(self) -> None:
        await self.engine.close()
        await self.world.clear_away()

    async def release(self, job: str, code: int = 0) -> None:
        released(self.root, job, code)

    async def lose_node(self) -> str:
        await self.order(Start(0, "long", on("n1", 0)))
        await self.started("long", 0)
        self.world.cut("n1")
        return "n1"

    async def return_node(self, name: str) -> None:
        self.world.mend(name)


@thorough
class TestFleetEngine(EngineContract):
    __test__ = True

    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def bench(self) -> EngineBench:
        return FleetBench(self.root)
