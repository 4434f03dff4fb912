"""A gang keeps its turn when the daemon restarts."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play_on
from tests.unit.control.test_estimates import teach
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device, Node
from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.engines.memory_world import MemoryWorld
from treadle.policies.live.decide import remembered
from treadle.policies.live.reasons import patience_of
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


def overtakes(here: Bench, job: str) -> object:
    """How many later jobs have started, as the next reservation counts them."""
    context = here.live.context
    scheduler = context.scheduler
    last, snapshot = remembered(scheduler.state.memory), scheduler.snapshot(context.clock.now())
    found = patience_of(context.belief, last, snapshot, scheduler.jobs[job])
    return found.numbers["overtakes"]


def test_u12_devices_are_kept_for_a_gang_after_a_restart(tmp_path: Path) -> None:
    there = MemoryWorld.of(Node("here", 2, "none"))
    gangs = []

    async def before(here: Bench) -> None:
        gangs.append(await overtaken(here, 4))
        why = await here.live.why(gangs[0])
        assert (why.code, why.numbers["devices"]) == ("reservation", 2)

    async def after(here: Bench) -> None:
        await here.settle()
        why = await here.live.why(gangs[0])
        assert (why.code, why.numbers["devices"]) == ("reservation", 2)
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
        assert overtakes(here, gangs[0]) == 2

    play_on(there, before, tmp_path, policy="afs")
    play_on(there, after, tmp_path, policy="afs")


@pytest.mark.parametrize("how", ["drain", "lose"])
def test_a_gang_keeps_its_count_when_a_node_goes_and_returns(tmp_path: Path, how: str) -> None:
    """1. A gang of all devices is overtaken twice. 2. A node goes and comes back; meanwhile one
    more job starts. 3. The controller starts again: the count is the same.
    """
    spare = Node("spare", 1, "none")
    there = MemoryWorld.of(Node("here", 2, "none"), spare)
    gangs = []

    async def before(here: Bench) -> None:
        teach(here, "steady", *[600.0] * 5)
        await here.reached(await here.submit("forever", model="steady"), State.RUNNING)
        gangs.append(await here.submit("forever", devices="3", model="steady"))
        for _ in range(2):
            await here.reached(await here.submit("sleep", "0"), State.SUCCEEDED)
            await here.settle()
        assert overtakes(here, gangs[0]) == 2
        if how == "drain":
            await here.live.order_node(ME, "spare", "drain")
        else:
            here.memory.lose_node("spare")
        await here.settle()
        assert (await here.live.why(gangs[0])).code == "away"
        await here.reached(await here.submit("sleep", "0"), State.SUCCEEDED)
        if how == "drain":
            await here.live.order_node(ME, "spare", "undrain")
        else:
            here.memory.add_node(spare)
        await here.settle()
        assert overtakes(here, gangs[0]) == 3

    async def after(here: Bench) -> None:
        await here.settle()
        assert overtakes(here, gangs[0]) == 3

    play_on(there, before, tmp_path, policy="afs")
    play_on(there, after, tmp_path, policy="afs")


class Beside(Policy):
    """Jobs of one device share the first slot."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        slot = Device("here", 0)
        small = [job for job in snapshot.waiting() if job.spec.asked == 1]
        first = len(snapshot.tenants.get(slot, {}))
        return Schedule(
            {job.id: Allocation((slot,), turn=first + turn) for turn, job in enumerate(small)}
        )


@pytest.mark.parametrize("joins", [True, False])
def test_u12_a_job_that_joined_another_overtook_none(tmp_path: Path, *, joins: bool) -> None:
    """1. A job runs, and a gang of two waits. 2. A later job joins the first, or takes the free
    device. 3. The controller starts again."""
    there = MemoryWorld.of(Node("here", 2, "none"))
    gangs = []

    async def before(here: Bench) -> None:
        if joins:
            here.live.context.scheduler.set_policy(Beside(), here.live.context.clock.now())
        await here.reached(await here.submit("forever"), State.RUNNING)
        gangs.append(await here.submit("forever", devices="2"))
        await here.settle()
        await here.reached(await here.submit("forever"), State.RUNNING)
        assert here.state(gangs[0]) is State.PENDING

    async def after(here: Bench) -> None:
        await here.settle()
        assert overtakes(here, gangs[0]) == (0 if joins else 1)

    play_on(there, before, tmp_path, policy="afs")
    play_on(there, after, tmp_path, policy="afs")
