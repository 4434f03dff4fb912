"""A bench for stories about one machine: jobs, their facts, and waiting for facts."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.telling import told_by

from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Action
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import AttemptEnded, DeviceClosed, DeviceOpened, Event, JobStarted
from treadle.core.job_report import JobReport
from treadle.core.launch import Launch
from treadle.core.ports import Engine
from treadle.engines.agent.agent import Agent
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.machine import Machine
from treadle.engines.clusters.here import HereFleet, here
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.devices import CpuSlots, DeviceSource
from treadle.engines.node.processes import ProcessId
from treadle.engines.registry import EngineContext, EngineOptions

WITHIN_S = 60.0


@dataclass
class Jobs:
    """What a controller would answer: how to launch each job, with attempts counted by order."""

    jobs: dict[str, Launch] = field(default_factory=dict)
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    facts: list[Event] = field(default_factory=list)
    inbox: "asyncio.Queue[Event]" = field(default_factory=asyncio.Queue)
    reports: list[JobReport] = field(default_factory=list)

    def launch(self, job: str, action: int, allocation: Allocation) -> Launch:
        earlier = sum(1 for name, _ in self.numbers if name == job)
        number = self.numbers.setdefault((job, action), earlier + 1)
        return replace(self.jobs[job], attempt=number, resumed=number > 1)

    def tell(self, *facts: Event) -> None:
        for fact in facts:
            self.facts.append(fact)
            if not isinstance(fact, DeviceClosed | DeviceOpened):
                self.inbox.put_nowait(fact)

    def report(self, *reports: JobReport) -> None:
        self.reports += reports


class Story:
    """An engine under test, with everything around it."""

    def __init__(
        self,
        root: Path,
        *,
        slots: int = 2,
        source: DeviceSource | None = None,
        excluded: tuple[int, ...] = (),
    ) -> None:
        self.root = root
        self.options = EngineOptions()
        self.jobs = Jobs()
        self.source = source or CpuSlots(slots)
        self.excluded = excluded
        self.engine = self.fresh_engine()

    @property
    def inbox(self) -> "asyncio.Queue[Event]":
        return self.jobs.inbox

    @property
    def ends(self) -> list[AttemptEnded]:
        """The ends of attempts that were launched, or should have been."""
        ends = [fact for fact in self.jobs.facts if isinstance(fact, AttemptEnded)]
        return [ended for ended in ends if ended.attempt or ended.error]

    @property
    def closed(self) -> list[DeviceClosed | DeviceOpened]:
        """Facts about devices."""
        return [fact for fact in self.jobs.facts if isinstance(fact, DeviceClosed | DeviceOpened)]

    def fresh_engine(self) -> FleetEngine:
        """Another engine over the same folders, as after a restart."""
        context = EngineContext(
            controls=self.jobs,
            clock=MonotonicClock(),
            root=self.root / "engine",
            options=self.options,
        )
        self.engine = here(context, devices=self.source, node_name="here", excluded=self.excluded)
        return self.engine

    @property
    def machine(self) -> Machine:
        """What its agent has of this machine, once the engine is in charge."""
        return machine_of(self.engine)

    @property
    def folders(self) -> AttemptFolders:
        return agent_of(self.engine).folders

    def live(self, job: str) -> LiveAttempt:
        """The attempt of the job that runs."""
        (live,) = self.lives(job)
        return live

    def supervisor(self, job: str) -> ProcessId:
        process = self.live(job).process
        assert process is not None
        return process

    def lives(self, job: str) -> list[LiveAttempt]:
        runs = [run for run in self.machine.runs.values() if run.job == job]
        return [run.live for run in runs if run.live is not None]

    async def begin(self) -> Machine:
        """Take charge of the machine, if nothing was ordered yet."""
        await self.order()
        return self.machine

    def job(self, name: str, *command: str, **details: Any) -> None:
        """A job that runs a command; `python` is this one, `-c` code may follow."""
        own = {"workdir": str(self.root), "ranks": 1, "grace_s": 5.0, "uid": os.geteuid()}
        details = {**own, **details}
        words = (sys.executable if word == "python" else word for word in command)
        self.jobs.jobs[name] = Launch(job=name, attempt=0, command=tuple(words), **details)

    async def order(self, *actions: Action) -> None:
        await self.engine.carry_out(actions)

    async def event(self) -> Event:
        """The next fact about a job, ends as what they mean to the scheduler.

        Ends that mean nothing to it, since the job goes on in another attempt, are left out, and
        so is the moment of a start, which only `jobs.facts` has.
        """
        while True:
            fact = await asyncio.wait_for(self.inbox.get(), WITHIN_S)
            meaning = fact.meaning if isinstance(fact, AttemptEnded) else fact
            if isinstance(meaning, JobStarted):
                return replace(meaning, started_at=None, pauses=())
            if meaning is not None:
                return meaning

    async def ended(self) -> Event:
        """The next event that is not a start."""
        while type(event := await self.event()).__name__ == "JobStarted":
            pass
        return event

    async def until(self, true: Callable[[], Any]) -> Any:
        """Wait for a condition, with a limit."""
        deadline = asyncio.get_running_loop().time() + WITHIN_S
        while not (found := true()):
            assert asyncio.get_running_loop().time() < deadline, "it did not come true"
            await asyncio.sleep(0.005)
        return found

    def folder(self, job: str, attempt: int = 1) -> Path:
        return self.folders.path(job, attempt)

    def log(self, job: str, *, attempt: int = 1, rank: int = 0) -> str:
        path = self.folder(job, attempt) / f"rank-{rank}.log"
        return path.read_text() if path.exists() else ""


def agent_of(engine: Engine) -> Agent:
    assert isinstance(engine, FleetEngine)
    assert isinstance(engine._fleet, HereFleet)
    return engine._fleet.agent


def machine_of(engine: Engine) -> Machine:
    session = agent_of(engine).session
    assert session is not None, "nobody is in charge"
    return session.machine


def on(*numbers: int, turn: int = 0) -> Allocation:
    return Allocation(tuple(Device("here", number) for number in numbers), turn=turn)


def tell(root: Path, story: Callable[[Story], Coroutine[Any, Any, None]], **details: Any) -> None:
    """Run a story on an event loop of its own, and leave nothing running."""

    async def whole() -> None:
        bench = Story(root, **details)
        try:
            await asyncio.wait_for(story(bench), 2 * WITHIN_S)
        finally:
            session = agent_of(bench.engine).session
            for run in [] if session is None else list(session.machine.runs.values()):
                if run.live is not None:
                    run.live.stop()
                    await run.live.gone
            await bench.engine.close()

    asyncio.run(whole())


telling = told_by(lambda story, root, **details: tell(root, story, **details))
