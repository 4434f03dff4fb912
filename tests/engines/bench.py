"""A bench for stories about the local engine: a book of jobs, an inbox, and waiting for facts."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Action
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import Event
from treadle.engines.launch import Ended, Launch
from treadle.engines.local.engine import LocalEngine
from treadle.engines.node.devices import CpuSlots, DeviceSource, node_of

WITHIN_S = 30.0


@dataclass
class Book:
    """What a controller would know: how to launch each job; it counts attempts by order."""

    jobs: dict[str, Launch] = field(default_factory=dict)
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    ends: list[Ended] = field(default_factory=list)
    reason: str = "unknown"

    def launch(self, job: str, action: int, allocation: Allocation) -> Launch:
        earlier = sum(1 for name, _ in self.numbers if name == job)
        number = self.numbers.setdefault((job, action), earlier + 1)
        return replace(self.jobs[job], attempt=number, resumed=number > 1)

    def begun(self, job: str, action: int, allocation: Allocation) -> tuple[float, float]:
        return 0.0, 1.0

    def done(self, job: str) -> float:
        return 0.0

    def ended(self, ended: Ended) -> str:
        self.ends.append(ended)
        return self.reason


class Story:
    """An engine under test, with everything around it."""

    def __init__(self, root: Path, *, slots: int = 2, source: DeviceSource | None = None) -> None:
        self.root = root
        self.book = Book()
        self.inbox: asyncio.Queue[Event | None] = asyncio.Queue()
        self.source = source or CpuSlots(slots)
        self.closed: list[tuple[Device, bool, str]] = []
        self.engine = self.fresh_engine()

    def fresh_engine(self) -> LocalEngine:
        """Another engine over the same folders, as after a restart."""
        self.engine = LocalEngine(
            node=node_of(self.source, "here"),
            devices=self.source,
            book=self.book,
            inbox=self.inbox,
            root=self.root / "engine",
            clock=MonotonicClock(),
            on_device=lambda *told: self.closed.append(told),
        )
        return self.engine

    def job(self, name: str, *command: str, **details: Any) -> None:
        """A job that runs a command; `python` is this one, `-c` code may follow."""
        details = {"workdir": str(self.root), "ranks": 1, "grace_s": 5.0, **details}
        words = (sys.executable if word == "python" else word for word in command)
        self.book.jobs[name] = Launch(job=name, attempt=0, command=tuple(words), **details)

    async def order(self, *actions: Action) -> None:
        await self.engine.carry_out(actions)

    async def event(self) -> Event:
        event = await asyncio.wait_for(self.inbox.get(), WITHIN_S)
        assert event is not None
        return event

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
        return self.engine.folders.path(job, attempt)

    def log(self, job: str, *, attempt: int = 1, rank: int = 0) -> str:
        return (self.folder(job, attempt) / f"rank-{rank}.log").read_text()


def on(*numbers: int, turn: int = 0) -> Allocation:
    return Allocation(tuple(Device("here", number) for number in numbers), turn=turn)


def tell(root: Path, story: Callable[[Story], Coroutine[Any, Any, None]], **details: Any) -> None:
    """Run a story on an event loop of its own, and leave nothing running."""

    async def whole() -> None:
        bench = Story(root, **details)
        try:
            await asyncio.wait_for(story(bench), 2 * WITHIN_S)
        finally:
            for runner in list(bench.engine._runners.values()):
                if runner.live is not None:
                    runner.live.stop()
                    await runner.live.gone
            await bench.engine.close()

    asyncio.run(whole())
