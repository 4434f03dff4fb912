"""A live controller on an engine in memory: no process is started."""

import asyncio
import os
import pwd
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.telling import told_by
from tests.waiting import at_rest
from treadle.control.api import LiveService, LiveSettings, Wanted
from treadle.control.learning import Profiles
from treadle.core.cluster import Node
from treadle.engines.memory import MemoryEngine
from treadle.engines.memory_world import MemoryWorld
from treadle.engines.registry import EngineContext
from treadle.failures.failure_history import Patience
from treadle.models.learning.kinds import Likeness
from treadle.models.learning.outcome import Outcome
from treadle.store.store import Store
from treadle.wire.jobs import Estimate, JobRequest, StartEstimate, State
from treadle.wire.machine import Role, Who

ME = Who(user="me", role=Role.ADMIN, uid=os.geteuid())
HOME = pwd.getpwuid(os.geteuid()).pw_dir  # where jobs run that name no folder
OTHER = Who(user="other", role=Role.USER, uid=pwd.getpwnam("nobody").pw_uid)
PATIENCE = Patience(wait_s=0.0, wait_max_s=0.0)

Story = Callable[["Bench"], Awaitable[None]]


class Bench:
    """A service and the engine under it."""

    def __init__(self, root: Path, world: MemoryWorld, policy: str) -> None:
        self.world = world
        self.engine: MemoryEngine | None = None
        settings = LiveSettings(
            root=root / "state", engine=self._make, wanted=Wanted(policy=policy), patience=PATIENCE
        )
        self.live = LiveService(Store.open(f"sqlite:///{root / 'treadle.db'}"), settings)

    def _make(self, context: EngineContext) -> MemoryEngine:
        self.engine = MemoryEngine(context, self.world)
        return self.engine

    @property
    def memory(self) -> MemoryEngine:
        assert self.engine is not None
        return self.engine

    async def submit(self, *command: str, who: Who = ME, **fields: object) -> str:
        request = JobRequest(command=command, **fields)  # type: ignore[arg-type]
        return (await self.live.submit(who, request)).id

    async def runs(self, *command: str, **fields: object) -> str:
        """Submit a job, one that does not end by itself if none is given, until it runs."""
        job = await self.submit(*(command or ("forever",)), **fields)  # type: ignore[arg-type]
        await self.reached(job, State.RUNNING)
        return job

    async def end(self, job: str) -> Estimate:
        """When it is said to end."""
        found = (await self.live.why(job)).end
        assert found is not None
        return found

    async def start(self, job: str) -> StartEstimate:
        """When it is said to start."""
        found = (await self.live.why(job)).estimate
        assert found is not None
        return found

    async def settle(self) -> None:
        await asyncio.wait_for(at_rest(self.live.context), 60.0)

    async def reached(self, job: str, *states: State) -> None:
        for _ in range(5000):
            if self.state(job) in states:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"job {job} is {self.state(job)}, not {states}")

    def state(self, job: str) -> State:
        jobs = self.live.context.jobs
        record = jobs.record(job)
        assert record is not None
        return jobs.shown_state(record)


def lesson(profiles: Profiles, alike: Likeness, size: int, length_s: float) -> None:
    """A whole job of this likeness took that long at that size."""
    profiles.observe(alike, Outcome(size, length_s, whole=True))


def span(found: Estimate | StartEstimate) -> tuple[float, float]:
    """The range of an answer that has one."""
    low_s = found.low_s if isinstance(found, Estimate) else found.earliest_s
    high_s = found.high_s if isinstance(found, Estimate) else found.latest_s
    assert low_s is not None
    assert high_s is not None
    return low_s, high_s


def play(story: Story, root: Path, *, devices: int = 4, policy: str = "backfill") -> None:
    """Run a story with a fresh controller on one node in memory."""
    play_on(MemoryWorld.of(Node("here", devices, "none")), story, root, policy=policy)


playing = told_by(play)


def play_on(world: MemoryWorld, story: Story, root: Path, *, policy: str = "backfill") -> None:
    """The same over a world that exists already, as after a restart."""

    async def whole() -> None:
        here = Bench(root, world, policy)
        await here.live.begin()
        try:
            await story(here)
        finally:
            await here.live.close()

    asyncio.run(asyncio.wait_for(whole(), 180))
