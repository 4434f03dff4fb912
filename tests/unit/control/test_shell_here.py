"""A job that holds devices for a shell has those of the machine where that runs."""

from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play_on
from treadle.core.cluster import Node
from treadle.engines.fleet.fleet_views import is_own
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import State
from treadle.wire.problems import InvalidRequestError

NODES = (Node("a", 2, "cpu"), Node("c", 2, "a100"), Node("d", 4, "h200"))


def away(*names: str) -> MemoryWorld:
    world = MemoryWorld.of(*NODES)
    world.elsewhere.update(names)
    return world


async def devices_of(here: Bench, job: str) -> tuple[str, ...]:
    await here.reached(job, State.RUNNING)
    return (await here.live.job(job)).job.devices


def test_a_shell_is_given_devices_of_its_machine_alone(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        assert await devices_of(here, await here.submit("forever", here=True)) == ("a:0",)
        (other,) = await devices_of(here, await here.submit("forever"))
        assert not other.startswith("a:")
        with pytest.raises(InvalidRequestError) as refused:
            await here.submit("forever", here=True, device_type="h200")
        assert str(refused.value) == (
            "a shell runs on the daemon's machine, node a: it asks for 1 device of type h200, and "
            "there are none; the types here are cpu"
        )
        assert refused.value.hint == "treadle run and treadle submit use the devices of other nodes"
        with pytest.raises(InvalidRequestError, match="node a: it asks for 3 "):
            await here.submit("forever", here=True, devices="3")
        assert await devices_of(here, await here.submit("forever", here=True)) == ("a:1",)
        third = await here.submit("forever", here=True)
        await here.settle()
        why = await here.live.why(third)
        assert (why.code, why.numbers["nodes"], why.numbers["by"]) == ("bound", ("a",), "shell")
        answer = await here.live.why_not(third, "d:3")
        assert (answer.code, answer.numbers["by"]) == ("files", "shell")

    play_on(away("c", "d"), story, tmp_path, policy="weave-l")


def test_a_machine_that_is_no_node_has_no_devices_for_a_shell(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        with pytest.raises(InvalidRequestError, match="which has no node in use here"):
            await here.submit("forever", here=True)

    play_on(away("a", "c", "d"), story, tmp_path)


def test_on_one_machine_a_shell_is_bound_to_nothing(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.runs(here=True)
        assert here.live.context.scheduler.jobs[job].only_on == ()

    play_on(away(), story, tmp_path)


def test_an_address_is_known_to_be_of_this_machine() -> None:
    assert is_own("127.0.0.7")
    assert is_own("::1")
    assert not is_own("192.0.2.1")
    assert not is_own("no address")
