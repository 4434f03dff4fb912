"""A bench of the engine on Kubernetes: the jobs of the contract, on a real cluster."""

import asyncio
import itertools
from pathlib import Path
from typing import ClassVar

from tests.engines.contract_jobs import commands, released
from tests.on_kubernetes.reach import SLOTS, Cluster
from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Start
from treadle.core.ports import Engine
from treadle.engines.clusters.kubernetes.access import access
from treadle.engines.clusters.kubernetes.kubernetes_engine import kubernetes_fleet
from treadle.engines.clusters.kubernetes.nodes import Settings
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.fleet.port import Fencing
from treadle.engines.node import processes
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.environment import TAG
from treadle.engines.registry import EngineContext
from treadle.testing.engine_bench import EngineBench, on

SOON = Fencing(failover_s=4.0, margin_s=1.0)
_folders = itertools.count(1)


class KubernetesBench(EngineBench):
    cannot: ClassVar = {"progress": "the controller fills in how far a job is"}

    def __init__(
        self,
        shared: Path,
        cluster: Cluster,
        fencing: Fencing = SOON,
        *,
        kubeconfig: Path | None = None,
        inside: bool = False,
    ) -> None:
        """shared: seen by the nodes. inside: pods are called directly, which works from here too.

        kubeconfig: by default that of a controller, which may do what deploy/ allows.
        """
        self.root, self.cluster = shared / str(next(_folders)), cluster
        self._fencing, self._kubeconfig = fencing, kubeconfig or cluster.controller
        self._inside = inside
        self.root.mkdir()
        super().__init__(commands(self.root))

    def make(self) -> Engine:
        root = self.root / "engine"
        context = EngineContext(controls=self.controls, clock=MonotonicClock(), root=root)
        environment = {"KUBECONFIG": str(self._kubeconfig)}
        fleet = kubernetes_fleet(
            context,
            lambda: access("", environment)._replace(inside=self._inside),
            "the test cluster",
            fencing=self._fencing,
            settings=Settings(root=str(root), beat_s=0.5, lost_beats=10),
            lease_s=2.0,
        )
        return FleetEngine(context, fleet)

    async def lose_node(self) -> str:
        name = next(name for name in ("n1", "n2") if name not in list(self.cluster.lost))
        await self.order(Start(0, "long", on(name, 0)))
        await self.started("long", 0)
        await asyncio.to_thread(self.cluster.lose, name)
        return name

    async def return_node(self, name: str) -> None:
        await asyncio.to_thread(self.cluster.give_back, name)

    async def clear_away(self) -> None:
        await self.engine.close()
        for name in list(self.cluster.lost):
            await asyncio.to_thread(self.cluster.give_back, name)
        while self._end_all():
            await asyncio.sleep(0.002)

    def _end_all(self) -> bool:
        """Kill what runs of a test, on all nodes; whether anything did."""
        folders = (AttemptFolders(self.root / "engine" / "nodes" / name) for name in SLOTS)
        ended = [processes.kill_tagged(TAG, f"{folder.instance}*") for folder in folders]
        return any(ended)

    async def ended(self, name: str, *, within_s: float) -> None:
        """Until it has, however long its node is away."""
        async with asyncio.timeout(within_s):
            while not self.ends(name):
                self.controls.arrived.clear()
                await self.controls.arrived.wait()

    async def release(self, job: str, code: int = 0) -> None:
        released(self.root, job, code)
