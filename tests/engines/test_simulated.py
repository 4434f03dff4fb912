"""The simulated engine keeps the contract that live engines are held to."""

from treadle.core.cluster import Cluster
from treadle.models.scaling import ScalingModel
from treadle.sim.engine import SimulatedEngine
from treadle.testing.clocks import SimulatedWorld
from treadle.testing.engine_contract import Bench, EngineContract


class TestSimulatedEngine(EngineContract):
    async def bench(self) -> Bench:
        cluster = Cluster.grid(2, 2)
        engine = SimulatedEngine([self.SHORT, self.LONG], ScalingModel.on(cluster))
        world = SimulatedWorld(engine)
        inbox = _JumpingInbox(world)
        await inbox.get()
        await inbox.get()
        return Bench(world, inbox)  # type: ignore[arg-type]


class _JumpingInbox:
    """An inbox that moves the world on when it is empty, as a waiting controller would."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world

    async def get(self):
        while self._world.inbox.empty():
            await self._world.sleep_until(self._world.next_at)
        return self._world.inbox.get_nowait()
