"""A live controller for tests: real processes on slots of the CPU, a store of its own."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from tests.engines.bench import machine_of
from treadle.control.api import LiveService, LiveSettings, Wanted
from treadle.engines.agent.machine import Machine
from treadle.engines.clusters.here import here as this_machine
from treadle.engines.node.devices import CpuSlots, DeviceSource
from treadle.engines.registry import EngineFactory
from treadle.failures.failure_history import Patience
from treadle.store.store import Store
from treadle.wire.jobs import JobRequest, JobView, State
from treadle.wire.machine import Role, Who

ME = Who(user="me", role=Role.ADMIN, uid=os.geteuid())
PATIENCE = Patience(wait_s=0.05, wait_max_s=0.1)


@asynccontextmanager
async def living(
    root: Path,
    *,
    slots: int = 4,
    policy: str = "backfill",
    devices: DeviceSource | None = None,
    engine: EngineFactory | None = None,
    url: str = "",
    patience: Patience = PATIENCE,
    store_patience_s: float = 15.0,
    admins: frozenset[str] = frozenset(),
) -> AsyncIterator[LiveService]:
    """A controller over the state in that folder, which is left as it is.

    engine: by default that of one machine, with these slots or devices.
    """
    here = partial(this_machine, devices=devices or CpuSlots(slots), node_name="here")
    address = url or f"sqlite:///{root / 'treadle.db'}"
    store = Store.open(address, patience_s=store_patience_s)
    settings = LiveSettings(
        root=root / "state",
        engine=engine or here,
        wanted=Wanted(policy=policy),
        patience=patience,
        admins=admins,
    )
    live = LiveService(store, settings)
    await live.begin()
    try:
        yield live
    finally:
        await live.close()


def bash(body: str, **fields: object) -> JobRequest:
    return JobRequest(command=("bash", "-c", body), **fields)  # type: ignore[arg-type]


async def until(
    live: LiveService, *states: State, jobs: tuple[str, ...], within_s: float = 180.0
) -> None:
    """Wait until these jobs are in one of these states."""

    async def reached() -> None:
        while not all([(await view_of(live, job)).state in states for job in jobs]):
            await asyncio.sleep(0.01)

    await asyncio.wait_for(reached(), within_s)


async def view_of(live: LiveService, job: str) -> JobView:
    return (await live.job(job)).job


async def ended(live: LiveService, *jobs: str, within_s: float = 180.0) -> list[JobView]:
    """Wait until these jobs have ended."""
    states = tuple(state for state in State if state.ended)
    await until(live, *states, jobs=jobs, within_s=within_s)
    return [await view_of(live, job) for job in jobs]


async def export(live: LiveService, path: Path) -> Path:
    """The journal as a file."""
    path.write_bytes(b"".join([piece async for piece in live.journal()]))
    return path


def local(live: LiveService) -> Machine:
    """This machine as its agent has it."""
    return machine_of(live.context.engine)


async def text_of(live: LiveService, job: str) -> str:
    """What the newest attempt has printed so far."""
    return (await live.log(job)).text


async def stopped_and_held(live: LiveService, job: str, devices: str) -> None:
    """It makes way for an urgent job on so many devices, and is held before that ends.

    A hold alone would pause it.
    """
    urgent = (await live.submit(ME, bash("exec sleep 86400", devices=devices, priority=10))).id
    await until(live, State.PENDING, jobs=(job,))
    await live.hold(ME, job)
    await live.cancel(ME, urgent)
    await until(live, State.CANCELLED, jobs=(urgent,))
