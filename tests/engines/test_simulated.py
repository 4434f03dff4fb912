"""The simulated engine keeps the contract of engines."""

from math import inf
from typing import ClassVar

from treadle.core.actions import Start
from treadle.core.cluster import Cluster, Node
from treadle.core.events import NodeLost
from treadle.core.ports import Engine
from treadle.models.scaling import ScalingModel
from treadle.sim.engine import SimulatedEngine
from treadle.sim.faults import Faults, FaultSettings
from treadle.testing.builders import job
from treadle.testing.engine_bench import EngineBench, on
from treadle.testing.engine_contract import EngineContract
from treadle.testing.simulated_world import SimulatedWorld

CLUSTER = Cluster((Node("n0", 3), Node("n1", 3)))
JOBS = (
    job("short", length_s=10.0),
    job("held", length_s=1000.0, sizes=(1, 2)),
    job("long", length_s=86_400.0, sizes=(1, 2)),
)
# The first node is lost after the other jobs have finished and while `long` runs.
FAULTS = FaultSettings(seed=2, node_mtbf_s=40_000.0, checkpoint_every_s=inf)


class SimulatedBench(EngineBench):
    cannot: ClassVar = {
        "attempts": "the simulator does not number attempts and reports no AttemptEnded for them",
        "changes while it runs": "the simulator restarts a job for every change",
        "drains": "simulated nodes are lost and return, and are not drained",
        "exit codes": "simulated jobs have no exit codes",
        "launches": "the simulator knows its jobs and does not ask how to launch them",
        "measurements": "the simulator reports progress instead",
        "output": "simulated jobs write nothing",
        "pauses": "a simulated job says how it can be paused by its spec, and these do not",
        "reports": "simulated jobs report nothing",
        "slow stops": "a simulated stop takes no time",
    }

    def __init__(self) -> None:
        faults = Faults(FAULTS, CLUSTER)
        self.first_lost = faults.fork().due(faults.next_at)[0]
        self.simulated = SimulatedEngine(JOBS, ScalingModel.on(CLUSTER), faults=faults)
        self.world: SimulatedWorld | None = None
        super().__init__({})

    def make(self) -> Engine:
        if self.world is None:
            self.world = SimulatedWorld(self.simulated, CLUSTER.nodes, controls=self.controls)
        else:
            self.world = self.world.restarted(self.controls)
        return self.world

    async def open(self) -> None:
        await self.more()
        self.facts.clear()  # The jobs were submitted.

    async def clear_away(self) -> None:
        await self.engine.close()

    async def more(self) -> None:
        """Jump to the next event, as a controller that waits would."""
        assert self.world is not None
        assert self.world.next_at < inf, f"nothing will happen any more; so far: {self.facts}"
        await self.world.sleep_until(self.world.next_at)

    async def release(self, job: str, code: int = 0) -> None:
        while not self.meanings(job):
            await self.more()

    async def lose_node(self) -> str:
        assert isinstance(self.first_lost, NodeLost)
        await self.order(Start(0, "long", on(self.first_lost.node, 0)))
        await self.started("long", 0)
        return self.first_lost.node

    async def return_node(self, name: str) -> None:
        """It returns by itself, after its repair."""


class TestSimulatedEngine(EngineContract):
    __test__ = True

    def bench(self) -> EngineBench:
        return SimulatedBench()
