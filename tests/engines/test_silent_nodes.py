"""Agents that hang: no call fails, and none is answered."""

import asyncio
from types import MappingProxyType

import pytest
from tests.engines.fleet_story import FleetStory, spread, telling

from treadle.core.actions import Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.errors import EngineError
from treadle.core.events import AttemptEnded, DeviceClosed, DeviceOpened, JobStarted, NodeLost
from treadle.core.launch import AttemptId
from treadle.core.machine import DeviceOrder, NodeOrder, NodeView
from treadle.engines.fleet import gathering, node_client, silent_nodes
from treadle.engines.fleet.silent_nodes import SILENT

DEVICES = [Device("n1", number) for number in range(3)]
REASON = "the agent of node n1 does not answer"
CLOSED = DeviceClosed(DEVICES[0], REASON, SILENT, tuple(DEVICES[1:]))
OPENED = DeviceOpened(DEVICES[0], tuple(DEVICES[1:]))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes seconds takes less."""
    monkeypatch.setattr(node_client, "FACTS_WAIT_S", 0.05)
    monkeypatch.setattr(node_client, "SLOW_AFTER_S", 0.5)
    monkeypatch.setattr(node_client, "SILENT_AFTER_S", 1.0)
    monkeypatch.setattr(node_client, "PERSON_WAITS_S", 0.1)
    monkeypatch.setattr(gathering, "WAIT_S", 0.1)
    monkeypatch.setattr(silent_nodes, "LOOK_EVERY_S", 0.05)


async def runs(bench: FleetStory) -> None:
    bench.job("one", "sleep", "86400")
    await bench.order(Start(0, "one", spread("n1")))
    await bench.started("one", 0)


async def falls_silent(bench: FleetStory) -> None:
    bench.world.links["n1"].awake.clear()
    await bench.until(lambda: set(DEVICES) <= set(bench.engine._closed))


def changes(bench: FleetStory) -> list[DeviceClosed | DeviceOpened]:
    """Of the devices of n1."""
    facts = [fact for fact in bench.jobs.facts if isinstance(fact, DeviceClosed | DeviceOpened)]
    return [fact for fact in facts if fact.device.node == "n1"]


def view_of(bench: FleetStory, name: str) -> NodeView:
    return next(view for view in bench.engine.view() if view.name == name)


@telling()
async def test_a_node_is_closed_while_its_agent_hangs_and_what_runs_there_runs_on(
    bench: FleetStory,
) -> None:
    await runs(bench)
    await falls_silent(bench)
    assert changes(bench) == [CLOSED], "one fact for a node: people read them"
    view = view_of(bench, "n1")
    assert [device.state for device in view.devices] == ["held", SILENT, SILENT]
    assert {device.because for device in view.devices} == {REASON}
    assert view.stuck["one"].startswith("the agent of node n1 has not answered for ")
    bench.world.links["n1"].awake.set()
    await bench.until(lambda: changes(bench) == [CLOSED, OPENED])
    assert view_of(bench, "n1").stuck == {}
    assert not any(isinstance(fact, AttemptEnded | NodeLost) for fact in bench.jobs.facts)
    await bench.order(Stop(1, "one"))
    assert (await bench.ended("one", 1)).how is How.STOPPED


@telling()
async def test_an_answer_that_was_long_on_its_way_does_not_say_that_the_agent_answers_now(
    bench: FleetStory,
) -> None:
    """As of a node that was cut off: what it said before arrives, and then nothing for a while."""
    await runs(bench)
    await falls_silent(bench)
    link = bench.world.links["n1"]
    asked = link.calls["facts"]
    link.awake.set()
    link.awake.clear()  # Those that wait are answered, and no others.
    await bench.until(lambda: link.calls["facts"] > asked)
    assert changes(bench) == [CLOSED]
    assert view_of(bench, "n1").health == "silent"
    link.awake.set()
    await bench.until(lambda: changes(bench) == [CLOSED, OPENED])


@telling()
async def test_the_next_agent_of_a_node_takes_over_what_runs_and_the_node_is_used_again(
    bench: FleetStory,
) -> None:
    await runs(bench)
    bench.job("two", "sleep", "86400")
    bench.world.links["n1"].awake.clear()
    await bench.order(Start(1, "two", Allocation((DEVICES[1],))))
    await falls_silent(bench)
    assert view_of(bench, "n1").stuck.keys() == {"one", "two"}
    await bench.world.replace_agent("n1")
    await bench.started("two", 1)
    await bench.until(lambda: changes(bench) == [CLOSED, OPENED])
    assert bench.count(JobStarted, "one") == 1
    assert bench.count(AttemptEnded, "one") == 0


@telling()
async def test_what_is_ordered_there_goes_back_to_the_queue(bench: FleetStory) -> None:
    """1. A job on two nodes waits for a device of one. 2. The agent of the other hangs. 3. A job
    is ordered there before the scheduler has heard of it.
    """
    await runs(bench)
    bench.job("wide", "sleep", "86400")
    bench.job("late", "sleep", "86400")
    bench.job("zero", "sleep", "86400")
    await bench.order(Start(1, "zero", spread("n0")))
    await bench.started("zero", 1)
    await bench.order(Start(2, "wide", Allocation((Device("n0", 0), DEVICES[1]))))
    await falls_silent(bench)
    await bench.order(Start(3, "late", Allocation((DEVICES[2],))))
    for job, action in (("wide", 2), ("late", 3)):
        end = await bench.ended(job, action)
        assert (end.attempt, end.how) == (0, How.STOPPED)
    assert bench.runs_on("wide") == bench.runs_on("late") == set()


@telling()
async def test_orders_and_output_of_a_silent_node_are_refused_at_once(bench: FleetStory) -> None:
    await runs(bench)
    await falls_silent(bench)
    said = "the agent of node n1 has not answered for [0-9a-z. ]+"
    with pytest.raises(EngineError, match=f"^{said}: it takes no orders until it does$"):
        await bench.engine.order_node("n1", NodeOrder.DRAIN)
    with pytest.raises(EngineError, match=f"^{said}: it takes no orders until it does$"):
        await bench.engine.order_device(DEVICES[1], DeviceOrder.AVOID)
    with pytest.raises(EngineError, match=f"^{said}$"):
        await bench.engine.output(AttemptId("one", 1), 0)
    calls = bench.world.links["n1"].calls
    assert not calls.keys() & {"order-node", "order-device", "output"}


@telling()
async def test_people_do_not_wait_for_a_node_that_has_only_just_begun_to_hang(
    bench: FleetStory,
) -> None:
    await runs(bench)
    bench.world.links["n1"].awake.clear()
    late = "^the agent of node n1 has not answered within a moment$"
    with pytest.raises(EngineError, match=late):
        await bench.engine.output(AttemptId("one", 1), 0)
    with pytest.raises(EngineError, match=late):
        await bench.engine.order_node("n1", NodeOrder.DRAIN)


@telling()
async def test_a_cluster_that_cannot_be_asked_says_nothing_about_its_agents(
    bench: FleetStory,
) -> None:
    await runs(bench)
    for link in bench.world.links.values():
        link.unreachable = True
    await bench.until(lambda: view_of(bench, "n1").health == "silent")
    await asyncio.sleep(4 * silent_nodes.LOOK_EVERY_S)
    assert changes(bench) == []


@telling()
async def test_a_controller_that_begins_opens_what_the_one_before_had_closed(
    bench: FleetStory,
) -> None:
    engine = bench.engine
    kept = {device: DeviceClosed(device, REASON, SILENT) for device in DEVICES}
    await engine.adopt([], [], MappingProxyType(kept))
    await bench.until(lambda: changes(bench) == [OPENED])
