"""A gang keeps its turn when the daemon restarts."""

from pathlib import Path

from tests.unit.control.memory import Bench, play_on
from tests.unit.control.test_estimates import teach
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import State


async def overtaken(here: Bench, times: int) -> str:
    """A gang of two behind a long job on one of two devices; so many later jobs have ended."""
    teach(here, "steady", *[600.0] * 5)
    await here.reached(await here.submit("forever", model="steady"), State.RUNNING)
    gang = await here.submit("forever", devices="2", model="steady")
    await here.settle()
    for _ in range(times):
        await here.reached(await here.submit("sleep", "0"), State.SUCCEEDED)
        await here.settle()
    return gang


def test_u12_devices_are_kept_for_a_gang_after_a_restart(tmp_path: Path) -> None:
    there = MemoryWorld.of(Node("here", 2, "none"))
    gangs = []

    async def before(here: Bench) -> None:
        gangs.append(await overtaken(here, 4))
        why = await here.live.why(gangs[0])
        assert why.because.startswith("2 devices are being kept for it")

    async def after(here: Bench) -> None:
        await here.settle()
        why = await here.live.why(gangs[0])
        assert why.because.startswith("2 devices are being kept for it")
        teach(here, "long", *[6000.0] * 5)
        small = await here.submit("forever", model="long")
        await here.settle()
        assert here.state(small) is State.PENDING

    play_on(there, before, tmp_path, policy="afs")
    play_on(there, after, tmp_path, policy="afs")


def test_u12_overtakings_are_counted_on_after_a_restart(tmp_path: Path) -> None:
    there = MemoryWorld.of(Node("here", 2, "none"))
    gangs = []

    async def before(here: Bench) -> None:
        gangs.append(await overtaken(here, 2))

    async def after(here: Bench) -> None:
        await here.settle()
        why = await here.live.why(gangs[0])
        assert why.reservation.startswith("it was overtaken twice; devices are kept for it once 2")

    play_on(there, before, tmp_path, policy="afs")
    play_on(there, after, tmp_path, policy="afs")
