"""Stories that tests live through with a controller, and what they ask on the way.

`told` is on real processes; `in_memory`, without any, is for what the controller does by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from tests.control.living import ME, bash, ended, living, until
from tests.telling import told_by
from tests.waiting import at_rest
from treadle.control.api import LiveService
from treadle.core.cluster import Node
from treadle.engines.memory import MemoryEngine
from treadle.engines.memory_world import MemoryWorld
from treadle.engines.registry import EngineFactory
from treadle.testing.checks import check
from treadle.wire.jobs import State, Why
from treadle.wire.machine import EventView
from treadle.wire.problems import ConflictError

LONG = "sleep 60"
Story = Callable[[LiveService], Awaitable[None]]


def told(story: Story, root: Path, **settings: object) -> None:
    """LiveService through a story, and leave nothing running."""

    async def whole() -> None:
        async with living(root, **settings) as live:  # type: ignore[arg-type]
            await story(live)
            await end_all(live)
            check(live.context.scheduler)

    asyncio.run(asyncio.wait_for(whole(), 180))


def in_memory(story: Story, root: Path, *, slots: int = 4, **settings: object) -> None:
    """The same on an engine in memory, whose jobs can sleep, print, fail and end."""
    told(story, root, engine=memory(slots), **settings)


telling, telling_in_memory = told_by(told), told_by(in_memory)


def memory(slots: int) -> EngineFactory:
    """One node without processes; a later controller over it finds what runs there."""
    world = MemoryWorld.of(Node("here", slots, "none"))
    return lambda context: MemoryEngine(context, world)


def engine_of(live: LiveService) -> MemoryEngine:
    """Of a story in memory."""
    assert isinstance(live.context.engine, MemoryEngine)
    return live.context.engine


async def end_all(live: LiveService) -> None:
    for view in (await live.jobs(limit=1000)).jobs:
        with suppress(ConflictError):  # It may have ended by now.
            await live.cancel(ME, view.id)
    await ended(live, *(view.id for view in (await live.jobs(limit=1000)).jobs))


async def runs(live: LiveService, body: str = LONG, **fields: object) -> str:
    """Submit a job and wait until it runs; it ends quickly at the stop signal."""
    job = (await live.submit(ME, bash(body, **{"grace_s": 0.2, **fields}))).id
    await until(live, State.RUNNING, jobs=(job,))
    return job


async def waits(live: LiveService, body: str = LONG, **fields: object) -> str:
    """Submit a job and wait until the policy has looked at it."""
    job = (await live.submit(ME, bash(body, **{"grace_s": 0.2, **fields}))).id
    await looked_at(live)
    return job


async def looked_at(live: LiveService) -> None:
    await at_rest(live.context)


async def events_of(live: LiveService, job: str = "", kind: str = "") -> list[EventView]:
    """Those of a job, of a kind, or all; records are ahead of the journal while that is written."""
    await looked_at(live)
    found = (await live.events(job=job, limit=1000)).events
    return [event for event in found if kind in ("", event.kind)]


def short(why: Why) -> tuple[str, str, bool, int | None]:
    return why.code, why.change, why.never, why.position


def counts(why: Why) -> tuple[object, object, object]:
    """Devices that a waiting job asks for, that are free, and in all."""
    return why.numbers["asked"], why.numbers["free"], why.numbers["total"]
