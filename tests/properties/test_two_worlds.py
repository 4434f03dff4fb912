"""The live controller, driven by the simulated engine, gives the simulator's orders."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest
from hypothesis import HealthCheck, given, settings
from tests.properties.live_runs import live

from treadle.control.loop.controller import Controller
from treadle.control.loop.live_policy import belief_on
from treadle.core.actions import Action, Start, Stop
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded, Event, JobFailed, JobFinished, JobStopped
from treadle.core.job import JobId
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import PHILLY, ScalingModel
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import policy
from treadle.testing.live_case import LiveCase
from treadle.testing.strategies import live_cases

Log = list[tuple[float, tuple[Action, ...]]]

POLICIES = ["fifo", "srtf", "las", "tiresias", "max-min", "afs", "muri-l", "weave-l"]


class SimulatedWorld:
    """The simulated engine as a live one, and the clock of its controller, which jumps.

    The controller sleeps only when it has nothing to do: then the next event is reported.
    """

    def __init__(self, simulated: SimulatedEngine) -> None:
        self.inbox: asyncio.Queue[Event | None] = asyncio.Queue()
        self.ended = asyncio.Event()  # nothing will happen any more
        self._engine = simulated
        self._ends: dict[JobId, JobFinished | JobFailed | JobStopped] = {}  # the newest of each
        self._now = 0.0

    def now(self) -> float:
        return self._now

    async def sleep_until(self, moment: float) -> None:
        now = min(moment, self._engine.next_at)
        if now == inf:
            self.ended.set()
            await asyncio.Event().wait()
        self._now = now
        events = self._engine.due(now)
        for event in events:
            if isinstance(event, JobFinished | JobFailed | JobStopped):
                self._ends[event.job] = event
            self.inbox.put_nowait(event)
        if now < moment and not events:
            await asyncio.Event().wait()

    async def carry_out(self, actions: Sequence[Action]) -> None:
        """What came too late is answered; the simulator's own loop gives no such orders."""
        before = self._engine.running()
        running, carried = set(before), []
        for action in actions:
            answer = self._too_late(action, ran=action.job in before, runs=action.job in running)
            if answer is not None:
                self.inbox.put_nowait(answer)
                continue
            carried.append(action)
            if isinstance(action, Stop):
                running.discard(action.job)
            else:
                running.add(action.job)
        self._engine.carry_out(carried, self._now)

    def _too_late(self, action: Action, *, ran: bool, runs: bool) -> Event | None:
        if not isinstance(action, Start) and not runs:
            return AttemptEnded(action.job, action.id, 0, How.STOPPED)
        ended = self._ends.get(action.job)
        if isinstance(action, Stop) or ran or action.job not in action.after:
            return None
        repeated = isinstance(ended, JobFinished | JobFailed)
        return replace(ended, action=action.id) if ended is not None and repeated else None


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
        adapter = SimulatedWorld(engine(case))
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
