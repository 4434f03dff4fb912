"""A test bench for engines: the jobs of the contract, and a record of the facts about them."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import Signature, signature
from types import MappingProxyType
from typing import ClassVar

import pytest

from treadle.core.actions import Action, Start
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import (
    AttemptEnded,
    DeviceClosed,
    Event,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
)
from treadle.core.job import Job, JobId
from treadle.core.job_report import JobReport
from treadle.core.launch import AttemptId, Launch
from treadle.core.lifecycle import Phase
from treadle.core.ports import Engine
from treadle.testing.builders import job

WITHIN_S = 20.0  # an answer that takes longer does not come
ELASTIC = ("flexible", "alone")
DONE, PER_S = 7.0, 2.0  # what the controller of the bench believes of each job

Commands = Mapping[JobId, tuple[str, ...]]
End = JobFinished | JobFailed | JobStopped


@dataclass
class Recorder:
    """The controls of an engine under test: it knows the commands and records the facts."""

    commands: Commands
    facts: list[Event] = field(default_factory=list)
    reports: list[JobReport] = field(default_factory=list)
    attempts: dict[tuple[JobId, int], int] = field(default_factory=dict)  # by (job, order)
    time_limit_s: float | None = None  # of every job
    nonce: str = ""  # of every attempt that is launched from now on
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def launch(self, job: JobId, action: int, allocation: Allocation) -> Launch:
        earlier = sum(1 for name, _ in self.attempts if name == job)
        return Launch(
            job=job,
            attempt=self.attempts.setdefault((job, action), earlier + 1),
            nonce=self.nonce,
            submission=self.nonce,
            command=self.commands[job],
            workdir="/",
            ranks=2 if job == "talker" else allocation.size if job in ELASTIC else 1,
            env={"TREADLE_API_URL": "unix:/nowhere"},
            secrets={"TREADLE_JOB_TOKEN": f"the token of {job}"},
            uid=os.geteuid(),
            # `slow` does not end by this signal.
            stop_signal="SIGCONT" if job == "slow" else "SIGTERM",
            grace_s=WITHIN_S,
            time_limit_s=self.time_limit_s,
            log_bytes_max=1024 if job == "flood" else 1 << 20,
            resumed=earlier > 0,
            iterations_done=DONE,
            iterations_per_s=PER_S,
        )

    def tell(self, *facts: Event) -> None:
        self.facts.extend(facts)
        self.arrived.set()

    def report(self, *reports: JobReport) -> None:
        self.reports.extend(reports)
        self.arrived.set()


class EngineBench(ABC):
    """An engine on a test bench, with at least three free devices on a node n0.

    These jobs can run on it:

        short     exits with 0 soon
        long      runs until it is stopped
        held      runs until `release`, then exits with the code given there
        slow      when it is stopped, it ends only after `release`
        talker    has 2 ranks; each writes "rank R one" and a line feed, runs until `release`,
                  writes "two" and a line feed, and exits with 0
        flood     keeps 1024 bytes of output, writes 8192 bytes and ends
        flexible  runs until it is stopped, and announces that it can change its size
        alone     the same, and every rank that is added while it runs ends with 1 at once; writes
                  "rank 0 of 1" when it does its work
        missing   has a command that cannot be executed
        reporter  calls treadle.report(3, 10), runs until `release`, calls treadle.report(10, 10)
                  and exits with 0
    """

    # What the engine cannot be put to, and why; the contract names the abilities.
    cannot: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init__(self, commands: Commands) -> None:
        """commands: what runs each job; the engine asks its controls for them."""
        self.controls = Recorder(commands)
        self.engine: Engine = self.make()

    @property
    def facts(self) -> list[Event]:
        return self.controls.facts

    # -- what a bench must offer ----------------------------------------------------------------

    @abstractmethod
    def make(self) -> Engine:
        """An engine with the controls of this bench, over the world of this bench."""

    async def open(self) -> None:  # noqa: B027
        """Prepare the engine; called once before anything else."""

    @abstractmethod
    async def clear_away(self) -> None:
        """Leave nothing running."""

    async def release(self, job: JobId, code: int = 0) -> None:
        """Let a job end; see the table of jobs."""
        raise NotImplementedError

    async def lose_node(self) -> str:
        """Lose a node on which `long` runs; return its name."""
        raise NotImplementedError

    async def return_node(self, name: str) -> None:
        """Let a node return that was lost."""
        raise NotImplementedError

    async def more(self) -> None:
        """Wait until more facts may have been reported."""
        self.controls.arrived.clear()
        await asyncio.wait_for(self.controls.arrived.wait(), WITHIN_S)

    # -- what the contract asks -----------------------------------------------------------------

    async def order(self, *actions: Action) -> None:
        await self.engine.carry_out(actions)

    async def crash(self) -> None:
        """Another engine over the same world, as after a crash; the facts so far are forgotten."""
        await self.engine.close()
        self.facts.clear()
        self.engine = self.make()

    async def restore(self, nonce: str) -> None:
        """The same, with a store that was restored: it gives the same numbers a second time."""
        await self.crash()
        self.controls.attempts.clear()
        self.controls.nonce = nonce

    async def fact(self, wanted: Callable[[Event], bool]) -> Event:
        """The first fact of that kind, also if it was reported before."""
        while True:
            found = next((fact for fact in self.facts if wanted(fact)), None)
            if found is not None:
                return found
            try:
                await self.more()
            except TimeoutError:
                raise AssertionError(f"the fact did not come; these did: {self.facts}") from None

    async def reported(self, step: float) -> JobReport:
        """The first report of so many steps."""
        while True:
            found = next((each for each in self.controls.reports if each.report.step == step), None)
            if found is not None:
                return found
            try:
                await self.more()
            except TimeoutError:
                raise AssertionError(f"no such report: {self.controls.reports}") from None

    async def started(self, name: JobId, action: int) -> JobStarted:
        """The answer to a Start or a Change."""
        fact = await self.fact(
            lambda fact: isinstance(fact, JobStarted) and (fact.job, fact.action) == (name, action)
        )
        assert isinstance(fact, JobStarted)
        return fact

    async def runs(self, name: JobId, on: Allocation | None = None, *, action: int = 0) -> None:
        """Start a job, on the first device if none are said, until it runs."""
        await self.order(Start(action, name, on or HERE))
        await self.started(name, action)

    async def announced(self, name: JobId, action: int) -> JobStarted:
        """A start that says what the attempt can change; an engine may report it a second time."""
        fact = await self.fact(
            lambda fact: (
                isinstance(fact, JobStarted)
                and (fact.job, fact.action) == (name, action)
                and bool(fact.changes)
            )
        )
        assert isinstance(fact, JobStarted)
        return fact

    def meaning(self, fact: Event) -> End | None:
        """What an end is to the scheduler; None for other facts."""
        bare = isinstance(fact, JobFinished | JobFailed | JobStopped)
        assert not bare, f"expected an AttemptEnded (rule 1), found {fact}"
        return fact.meaning if isinstance(fact, AttemptEnded) else None

    async def end(self, name: JobId, action: int) -> Event:
        """The end of a job that answers this order."""
        return await self.fact(
            lambda fact: (
                (end := self.meaning(fact)) is not None and (end.job, end.action) == (name, action)
            )
        )

    def ends(self, name: JobId) -> list[AttemptEnded]:
        """All ends of attempts of a job, as far as the engine says which."""
        return [f for f in self.facts if isinstance(f, AttemptEnded) and f.job == name]

    def starts(self, name: JobId) -> list[int]:
        """The orders that were answered by a start."""
        return [f.action for f in self.facts if isinstance(f, JobStarted) and f.job == name]

    def meanings(self, name: JobId) -> list[End]:
        """What the ends of a job are to the scheduler."""
        return [end for fact in self.facts if (end := self.meaning(fact)) and end.job == name]

    def held(self) -> set[JobId]:
        """The jobs that hold devices."""
        nodes = self.engine.view()
        return {job for node in nodes for device in node.devices for job in device.jobs}

    def index(self, wanted: Event) -> int:
        """Where a fact stands in the order of reports."""
        return next(place for place, fact in enumerate(self.facts) if fact is wanted)

    async def closed(self, device: Device) -> DeviceClosed:
        fact = await self.fact(
            lambda fact: isinstance(fact, DeviceClosed) and fact.device == device
        )
        assert isinstance(fact, DeviceClosed)
        return fact

    async def text(self, attempt: AttemptId, rank: int, wanted: bytes) -> bytes:
        """The output of a rank once it contains the wanted bytes."""
        found = b""
        async for piece in self.engine.follow(attempt, rank):
            found += piece.data
            if wanted in found:
                break
        assert wanted in found, found
        return found


def on(node: str, *numbers: int, turn: int = 0) -> Allocation:
    """An allocation of devices of one node."""
    return Allocation(tuple(Device(node, number) for number in numbers), turn=turn)


HERE, THERE, BOTH = on("n0", 0), on("n0", 1), on("n0", 0, 1)


def row(
    name: JobId,
    phase: Phase,
    allocation: Allocation | None = None,
    *,
    action: int = 0,
    attempt: int = 0,
) -> Job:
    """A job as the controller knows it after a crash."""
    spec = job(name, length_s=86_400.0, sizes=(1, 2))
    return Job(spec, 0, phase, 0.0, 0.0, allocation=allocation, action=action, attempt=attempt)


Story = Callable[[EngineBench], Awaitable[None]]


def told(*needs: str) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Makes a test of a method that is given a bench: a story that needs these abilities."""

    def decorate(story: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @wraps(story)
        def test(self: "BenchTests", **fixtures: object) -> None:
            self.tell(lambda bench: story(self, bench, **fixtures), *needs)

        own, _, *others = signature(story).parameters.values()
        test.__signature__ = Signature([own, *others])  # type: ignore[attr-defined]
        return test

    return decorate


class BenchTests:
    """Tests that run stories on benches."""

    __test__: ClassVar[bool] = False  # subclasses set it to True

    def bench(self) -> EngineBench:
        """A fresh bench; called on a running event loop. Override this."""
        raise NotImplementedError

    def tell(self, story: Story, *needs: str) -> None:
        """Run a story on an event loop and a bench of its own."""

        async def run() -> None:
            bench = self.bench()
            try:
                for need in needs:
                    if need in bench.cannot:
                        pytest.skip(f"{need}: {bench.cannot[need]}")
                await bench.open()
                await asyncio.wait_for(story(bench), 3 * WITHIN_S)
            finally:
                await bench.clear_away()

        asyncio.run(run())
