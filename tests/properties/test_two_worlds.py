"""The live controller, driven by the simulated engine, gives the simulator's orders."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from tests.properties.live_runs import live

from treadle.control.loop.controller import Controller
from treadle.control.loop.live_policy import belief_on
from treadle.core.actions import Action
from treadle.core.events import Event
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import PHILLY, ScalingModel
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import policy
from treadle.testing.live_case import LiveCase
from treadle.testing.simulated_world import SimulatedWorld
from treadle.testing.strategies import live_cases

Log = list[tuple[float, tuple[Action, ...]]]

POLICIES = ["fifo", "srtf", "las", "tiresias", "max-min", "afs", "muri-l", "weave-l"]


def scheduler_of(name: str, case: LiveCase) -> Scheduler:
    made = policy(live(name, case.quotas), belief=belief_on(case.cluster))
    return Scheduler(made, case.cluster, retry=case.retry)


def engine(case: LiveCase) -> SimulatedEngine:
    return case.engine(ScalingModel.on(case.cluster, PHILLY))


def simulated(name: str, case: LiveCase) -> Log:
    log: Log = []
    Simulation(scheduler_of(name, case), engine(case), observers=(_into(log),)).run()
    return log


def controlled(name: str, case: LiveCase) -> Log:
    log: Log = []

    async def drive() -> None:
        adapter = SimulatedWorld(engine(case), case.cluster.nodes)
        controller = Controller(
            scheduler_of(name, case),
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
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=live_cases())
def test_both_loops_give_the_same_orders(name: str, case: LiveCase) -> None:
    assert simulated(name, case) == controlled(name, case)
