"""A bench for stories about the fleet engine: a world of nodes, jobs, and waiting for facts."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tests.engines.bench import WITHIN_S, Jobs
from tests.engines.fleet_world import FleetWorld, WorldFleet
from tests.telling import told_by

from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Action
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import AttemptEnded, Event, JobStarted
from treadle.core.launch import Launch
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.node import processes
from treadle.engines.node.environment import TAG
from treadle.engines.registry import EngineContext, EngineOptions

Fact = TypeVar("Fact", bound=Event)


class SizedJobs(Jobs):
    """Jobs with a rank for each device."""

    def launch(self, job: str, action: int, allocation: Allocation) -> Launch:
        return replace(super().launch(job, action, allocation), ranks=allocation.size)


class FleetStory:
    """An engine over a world, with everything around it."""

    def __init__(
        self, root: Path, nodes: Sequence[str], *, apart: bool = False, **options: Any
    ) -> None:
        """apart: nodes have no file system in common. options: of the engine."""
        self.root = root
        self.world = FleetWorld(root / "nodes", tuple(nodes), apart=apart)
        self.options = EngineOptions(**options)
        self.jobs = SizedJobs()
        self.within_s = WITHIN_S
        self.engine = self.fresh_engine()

    def fresh_engine(self) -> FleetEngine:
        """Another engine over the same world, as after a crash of the controller."""
        folder = self.root / "engine"
        folder.mkdir(exist_ok=True)
        context = EngineContext(
            controls=self.jobs, clock=MonotonicClock(), root=folder, options=self.options
        )
        fleet = WorldFleet(self.world)
        self.engine = FleetEngine(context, fleet)
        return self.engine

    async def crash(self) -> FleetEngine:
        await self.engine.close()
        self.jobs.facts.clear()
        return self.fresh_engine()

    def job(self, name: str, *command: str, **details: Any) -> None:
        """A job with a rank for each device; `python` is this one."""
        own = {"workdir": str(self.root), "ranks": 0, "grace_s": 5.0, "uid": os.geteuid()}
        words = (sys.executable if word == "python" else word for word in command)
        self.jobs.jobs[name] = Launch(
            job=name, attempt=0, command=tuple(words), **{**own, **details}
        )

    async def order(self, *actions: Action) -> None:
        await self.engine.carry_out(actions)

    async def until(self, true: Callable[[], Any]) -> Any:
        deadline = asyncio.get_running_loop().time() + self.within_s
        while not (found := true()):
            assert asyncio.get_running_loop().time() < deadline, self.jobs.facts
            await asyncio.sleep(0.01)
        return found

    async def started(self, job: str, action: int) -> JobStarted:
        return await self._fact(JobStarted, job, action)

    async def ended(self, job: str, action: int) -> AttemptEnded:
        return await self._fact(AttemptEnded, job, action)

    async def _fact(self, kind: type[Fact], job: str, action: int) -> Fact:
        def found() -> list[Fact]:
            return [
                fact
                for fact in self.jobs.facts
                if isinstance(fact, kind)
                and isinstance(fact, JobStarted | AttemptEnded)
                and (fact.job, fact.action) == (job, action)
            ]

        facts: list[Fact] = await self.until(found)
        return facts[0]

    def count(self, kind: type[Event], job: str) -> int:
        """How many facts of that kind there were about a job."""
        own = [fact for fact in self.jobs.facts if isinstance(fact, kind)]
        return sum(1 for fact in own if getattr(fact, "job", "") == job)

    def newest(self, kind: type[Fact]) -> Fact | None:
        """The newest fact of that kind."""
        return next((f for f in reversed(self.jobs.facts) if isinstance(f, kind)), None)

    def runs_on(self, job: str) -> set[str]:
        """The nodes on which a process of the job is alive."""
        return {
            name
            for name, link in self.world.links.items()
            if processes.tagged(TAG, f"{link.agent.folders.instance}-{job}-*")
        }


def spread(*names: str, each: int = 1) -> Allocation:
    return Allocation(tuple(Device(name, number) for name in names for number in range(each)))


def tell(
    root: Path,
    story: Callable[[FleetStory], Coroutine[Any, Any, None]],
    nodes: Sequence[str] = ("n0", "n1", "n2"),
    **details: Any,
) -> None:
    """Run a story on an event loop of its own, and leave nothing running."""

    async def whole() -> None:
        bench = FleetStory(root, nodes, **details)
        try:
            await asyncio.wait_for(story(bench), 10 * WITHIN_S)
        finally:
            await bench.engine.close()
            await bench.world.clear_away()

    asyncio.run(whole())


telling = told_by(lambda story, root, **details: tell(root, story, **details))
