"""The contract of an engine: subclass EngineContract, say how to make yours, and run pytest."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import Event, JobFinished, JobStarted, JobStopped, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.ports import Engine
from treadle.testing.builders import job

Kind = TypeVar("Kind", bound=Event)

ANSWER_WITHIN = 1000  # events to look through for an answer before giving up


@dataclass(frozen=True, slots=True)
class Bench:
    """An engine on a test bench: two nodes n0 and n1 with two free devices each.

    The jobs `short` (10 s of work on one device) and `long` (a day) can be started on it, and are
    announced by JobSubmitted events if the engine announces jobs.
    """

    engine: Engine
    inbox: "asyncio.Queue[Event | None]"

    async def order(self, *actions: Action) -> None:
        await self.engine.carry_out(actions)

    async def answer(self, kind: type[Kind], identity: str) -> Kind:
        """The next event of that kind about that job."""
        for _ in range(ANSWER_WITHIN):
            event = await self.inbox.get()
            if isinstance(event, kind) and getattr(event, "job", None) == identity:
                return event
        raise AssertionError(f"no {kind.__name__} of job {identity} came")


class EngineContract:
    """What every engine promises, whatever runs underneath."""

    SHORT: JobSpec = job("short", length_s=10.0)
    LONG: JobSpec = job("long", length_s=86_400.0, size=1, sizes=(1, 2))

    async def bench(self) -> Bench:
        """A fresh engine that knows SHORT and LONG. Override this."""
        raise NotImplementedError

    def test_a_start_is_answered_with_its_own_id(self) -> None:
        async def story() -> None:
            bench = await self.bench()
            await bench.order(Start(7, "long", on("n0", 0)))
            started = await bench.answer(JobStarted, "long")
            assert started.action == 7
            assert started.iterations_per_s > 0

        run(story())

    def test_a_job_that_is_left_alone_finishes(self) -> None:
        async def story() -> None:
            bench = await self.bench()
            await bench.order(Start(0, "short", on("n0", 0)))
            finished = await bench.answer(JobFinished, "short")
            assert finished.action == 0

        run(story())

    def test_a_stop_is_answered_with_what_can_be_resumed(self) -> None:
        async def story() -> None:
            bench = await self.bench()
            await bench.order(Start(0, "long", on("n0", 0)))
            await bench.answer(JobStarted, "long")
            await bench.order(Stop(1, "long"))
            stopped = await bench.answer(JobStopped, "long")
            assert stopped.action == 1
            assert 0 <= stopped.iterations_done < self.LONG.iterations

        run(story())

    def test_a_stopped_job_resumes_where_it_was(self) -> None:
        async def story() -> None:
            bench = await self.bench()
            await bench.order(Start(0, "long", on("n0", 0)))
            await bench.answer(JobStarted, "long")
            await bench.order(Stop(1, "long"))
            stopped = await bench.answer(JobStopped, "long")
            await bench.order(Start(2, "long", on("n1", 1)))
            resumed = await bench.answer(JobStarted, "long")
            assert resumed.action == 2
            assert resumed.iterations_done == stopped.iterations_done

        run(story())

    def test_a_change_is_answered_with_its_own_id(self) -> None:
        async def story() -> None:
            bench = await self.bench()
            await bench.order(Start(0, "long", on("n0", 0)))
            await bench.answer(JobStarted, "long")
            await bench.order(Change(1, "long", on("n0", 0, 1)))
            changed = await bench.answer(JobStarted, "long")
            assert changed.action == 1

        run(story())

    def test_a_start_after_a_stop_waits_for_it(self) -> None:
        """`after` holds: the stop is reported before the start that needs its device."""

        async def story() -> None:
            bench = await self.bench()
            await bench.order(Start(0, "long", on("n0", 0)))
            await bench.answer(JobStarted, "long")
            await bench.order(Stop(1, "long"), Start(2, "short", on("n0", 0), ("long",)))
            seen: list[tuple[type, str]] = []
            while (JobStarted, "short") not in seen:
                event = await bench.inbox.get()
                if not isinstance(event, JobSubmitted):
                    seen.append((type(event), getattr(event, "job", "")))
            assert seen.index((JobStopped, "long")) < seen.index((JobStarted, "short"))

        run(story())


def on(node: str, *numbers: int) -> Allocation:
    """An allocation of devices of one node."""
    return Allocation(tuple(Device(node, number) for number in numbers))


def run(story: Coroutine[Any, Any, None]) -> None:
    """Run a story on an event loop of its own, with a limit on its length."""
    asyncio.run(asyncio.wait_for(story, 60.0))
