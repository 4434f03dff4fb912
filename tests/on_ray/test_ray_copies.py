"""Checkpoints between nodes of a real Ray cluster whose folders are apart."""

import asyncio
from dataclasses import replace
from pathlib import Path

from tests.on_ray.bench import SOON, RayBench
from tests.on_ray.cluster import RayCluster
from tests.shared import thorough
from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Start, Stop
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded
from treadle.core.ports import Engine
from treadle.engines.agent.messages import TakeCharge
from treadle.engines.clusters.ray.ray_engine import ray_fleet
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.registry import EngineContext, EngineOptions
from treadle.testing.engine_bench import on

LIMIT_GIB = 1 / 64
WRITES = """
ls "$TREADLE_CHECKPOINT_DIR" | tr '\\n' ' '
head -c 5000000 /dev/urandom > "$TREADLE_CHECKPOINT_DIR/weights-$TREADLE_ATTEMPT"
echo written
exec sleep 86400
"""


class ApartEngine(FleetEngine):
    """Asks nodes for a file that none of them has, so each keeps checkpoints of its own."""

    def charge(self, node: str) -> TakeCharge:
        return replace(super().charge(node), probe="of another machine")


class ApartBench(RayBench):
    def make(self) -> Engine:
        self.controls.commands = {"long": ("sh", "-c", WRITES)}
        context = EngineContext(
            controls=self.controls,
            clock=MonotonicClock(),
            root=self.root / "engine",
            options=EngineOptions(copy_limit_gib=LIMIT_GIB),
        )
        fleet = ray_fleet(context, self.cluster.connect, fencing=SOON, look_every_s=0.1)
        return ApartEngine(context, fleet)

    def folder(self, node: str) -> Path:
        return self.root / "engine" / "nodes" / node / "checkpoints" / "long"

    async def runs(self, order: int, attempt: int, node: str) -> None:
        await self.order(Start(order, "long", on(node, 0)))
        await self.started("long", order)
        weights = self.folder(node) / f"weights-{attempt}"
        async with asyncio.timeout(20):
            while not weights.exists() or weights.stat().st_size < 5_000_000:
                await asyncio.sleep(0.01)
        await self.order(Stop(order + 1, "long"))
        await self.end("long", order + 1)


@thorough
def test_checkpoints_follow_their_job_from_node_to_node(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    async def story(bench: ApartBench) -> None:
        await bench.runs(0, 1, "n0")
        await bench.runs(2, 2, "n1")
        for name in ("weights-1", "weights-2"):
            assert (bench.folder("n1") / name).stat().st_size == 5_000_000
        first, copy = bench.folder("n0") / "weights-1", bench.folder("n1") / "weights-1"
        assert first.read_bytes() == copy.read_bytes()
        (bench.folder("n1") / "more").write_bytes(bytes(9_000_000))
        await bench.order(Start(4, "long", on("n0", 0)))
        while not (ends := [f for f in bench.facts if isinstance(f, AttemptEnded) and f.error]):
            await bench.more()
        assert (ends[0].how, ends[0].only_on) == (How.MACHINE_ERROR, ("n1",))
        assert "hold 18.1 MiB, and at most 16 MiB are copied" in ends[0].error

    async def whole() -> None:
        bench = ApartBench(tmp_path, ray_nodes)
        try:
            await asyncio.wait_for(story(bench), 120)
        finally:
            await bench.clear_away()

    asyncio.run(whole())
