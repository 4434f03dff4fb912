"""The engine of one machine keeps the contract of engines, with real processes."""

import asyncio
from pathlib import Path
from typing import ClassVar

import pytest
from tests.engines.bench import agent_of
from tests.engines.contract_jobs import commands, released

from treadle.control.loop.clock import MonotonicClock
from treadle.core.ports import Engine
from treadle.engines.clusters.here import here
from treadle.engines.node import processes
from treadle.engines.node.devices import CpuSlots
from treadle.engines.node.environment import TAG
from treadle.engines.registry import EngineContext
from treadle.testing.engine_bench import EngineBench
from treadle.testing.engine_contract import EngineContract


class LocalBench(EngineBench):
    cannot: ClassVar = {
        "node loss": "the engine ends with its only node",
        "progress": "the controller fills in how far a job is",
        "reports": "its jobs reach the controller themselves",
    }

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(commands(root))

    def make(self) -> Engine:
        context = EngineContext(
            controls=self.controls, clock=MonotonicClock(), root=self.root / "engine"
        )
        return here(context, devices=CpuSlots(3), node_name="n0")

    async def clear_away(self) -> None:
        await self.engine.close()
        while processes.kill_tagged(TAG, f"{agent_of(self.engine).folders.instance}*"):
            await asyncio.sleep(0.002)

    async def release(self, job: str, code: int = 0) -> None:
        released(self.root, job, code)


class TestLocalEngine(EngineContract):
    __test__ = True

    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def bench(self) -> EngineBench:
        return LocalBench(self.root)
