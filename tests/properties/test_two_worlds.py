"""The live controller, driven by the simulated engine, gives the simulator's orders."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.control.loop.controller import Controller
from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.events import Event
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import PHILLY, ScalingModel
from treadle.sim.costs import Constant
from treadle.sim.engine import SimulatedEngine
from treadle.sim.faults import Faults, FaultSettings
from treadle.sim.run import Simulation
from treadle.testing.builders import policy
from treadle.testing.simulated_world import SimulatedWorld
from treadle.testing.strategies import clusters, workloads

Log = list[tuple[float, tuple[Action, ...]]]

POLICIES = ["fifo", "srtf", "las?quantum_s=4", "tiresias?limits=5:20", "max-min?quantum_s=6"]


def engine(cluster: Cluster, jobs: list[JobSpec], cost_s: float, seed: int) -> SimulatedEngine:
    faults = FaultSettings(seed=seed, node_mtbf_s=60.0, node_repair_s=7.0, checkpoint_every_s=3.0)
    return SimulatedEngine(
        jobs,
        ScalingModel.on(cluster, PHILLY),
        cost=Constant(cost_s),
        faults=Faults(faults, cluster),
    )


def simulated(name: str, cluster: Cluster, world: SimulatedEngine) -> Log:
    log: Log = []
    Simulation(Scheduler(policy(name), cluster), world, observers=(_into(log),)).run()
    return log


def live(name: str, cluster: Cluster, world: SimulatedEngine) -> Log:
    log: Log = []

    async def drive() -> None:
        adapter = SimulatedWorld(world, cluster.nodes)
        controller = Controller(
            Scheduler(policy(name), cluster),
            adapter,
            adapter,
            adapter.inbox,
            observers=(_into(log),),
            on_error=_fail,
        )
        loop = asyncio.ensure_future(controller.run())
        ended = asyncio.ensure_future(adapter.ended.wait())
        await asyncio.wait({loop, ended}, return_when=asyncio.FIRST_COMPLETED)
        loop.cancel()
        ended.cancel()
        await asyncio.gather(loop, ended, return_exceptions=True)
        if not loop.cancelled() and loop.exception() is not None:
            raise loop.exception()  # type: ignore[misc]

    asyncio.run(drive())
    return log


def _into(log: Log):
    def observe(
        now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        if actions:
            log.append((now, tuple(actions)))

    return observe


def _fail(now: float, error: Exception) -> None:
    raise AssertionError(f"at {now}: {error!r}")


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=25, deadline=None)
@given(
    cluster=clusters(),
    jobs=workloads(),
    cost_s=st.sampled_from([0.0, 2.0]),
    seed=st.integers(0, 3),
)
def test_both_loops_give_the_same_orders(
    name: str, cluster: Cluster, jobs: list[JobSpec], cost_s: float, seed: int
) -> None:
    one = simulated(name, cluster, engine(cluster, jobs, cost_s, seed))
    other = live(name, cluster, engine(cluster, jobs, cost_s, seed))
    assert one == other
