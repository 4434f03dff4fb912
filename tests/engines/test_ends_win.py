"""A scheduler and an engine whose facts arrive late: a job that has finished is not run again."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from treadle.core.actions import Action
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import AttemptEnded, Event, JobStarted, JobSubmitted
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.engines.memory import MemoryEngine
from treadle.engines.memory_world import MemoryWorld
from treadle.engines.registry import EngineContext
from treadle.testing.builders import job
from treadle.testing.clocks import ManualClock
from treadle.testing.engine_bench import Recorder

DEVICES = 4
JOBS = 6


class Shuffle(Policy):
    """Gives every decision other devices and sizes to other jobs, circles among them."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def decide(self, snapshot: Snapshot) -> Schedule:
        draw = Random(f"{self._seed}/{snapshot.now}")
        devices = [Device("n0", number) for number in range(DEVICES)]
        draw.shuffle(devices)
        names = [row.id for row in (*snapshot.waiting(), *snapshot.holding())]
        draw.shuffle(names)
        given: dict[JobId, Allocation] = {}
        for name in names:
            size = draw.choice((1, 1, 2))
            if size <= len(devices):
                given[name] = Allocation(tuple(devices.pop() for _ in range(size)))
        return Schedule.whole(snapshot, given, valid_until=snapshot.now + 1.0)


class Run:
    """One scheduler, one engine, and facts on their way between them."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        specs = [job(f"j{number}", sizes=(1, 2), retries=99) for number in range(JOBS)]
        self.scheduler = Scheduler(Shuffle(seed), Cluster((Node("n0", DEVICES),)))
        self.controls = Recorder({spec.id: ("forever",) for spec in specs})
        context = EngineContext(controls=self.controls, clock=ManualClock(), root=Path("/nowhere"))
        self.engine = MemoryEngine(context, MemoryWorld.of(Node("n0", DEVICES)))
        self.on_their_way: list[Event] = []
        self.submitted: list[Event] = [JobSubmitted(spec) for spec in specs]
        self.read = 0
        self.finished: dict[AttemptId, int] = {}

    async def step(self, now: float) -> None:
        """Let some facts arrive, end a job before the orders that follow are carried out."""
        self.gather()
        count = self.draw.randint(0, len(self.on_their_way))
        arrived, self.on_their_way = self.on_their_way[:count], self.on_their_way[count:]
        if self.draw.random() < 0.2:
            arrived += arrived[-1:]  # Repeated.
        orders: list[Action] = self.scheduler.step([*self.submitted, *arrived], now)
        self.submitted = []
        running = [attempt for attempt in self.engine.world.running() if attempt.started]
        if running and self.draw.random() < 0.4:
            attempt = self.draw.choice(running).launch.id
            self.finished[attempt] = self.draw.choice((0, 1))
            self.engine.finish(attempt.job, self.finished[attempt])
        await self.engine.carry_out(orders)
        await asyncio.sleep(0)

    def gather(self) -> None:
        facts = self.controls.facts
        self.on_their_way += facts[self.read :]
        self.read = len(facts)

    def check(self) -> None:
        done = {attempt.job: attempt.number for attempt, code in self.finished.items() if not code}
        for name, number in done.items():
            newest = self.engine.world.newest(name)
            assert newest is not None
            assert newest.launch.attempt == number, f"{name} ran again after it had finished"


@pytest.mark.parametrize("seed", range(8))
def test_a_job_that_has_finished_is_not_run_again(seed: int):
    async def story() -> None:
        run = Run(seed)
        for number in range(2000):
            await run.step(float(number))
            run.check()
            if not run.scheduler.jobs:
                break
        assert not run.scheduler.jobs
        assert not run.engine.world.running()
        assert list(run.finished.values()).count(0) == JOBS
        starts = [fact for fact in run.controls.facts if isinstance(fact, JobStarted)]
        ends = [fact for fact in run.controls.facts if isinstance(fact, AttemptEnded)]
        assert len(starts) > JOBS
        launched = {end.attempt for end in ends if end.job == "j0" and end.attempt}
        assert launched == set(range(1, len(launched) + 1))
        await run.engine.close()

    asyncio.run(story())
