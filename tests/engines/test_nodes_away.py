"""Nodes that left: what runs there goes on, until its grant has run out or a person says so."""

import asyncio

import pytest
from tests.engines.fleet_story import FleetStory, telling
from tests.engines.fleet_world import GONE_AFTER_S
from tests.engines.test_fleet_nodes import ONE, WIDE, both_run, launches
from tests.engines.test_lost_parts import ends_when_its_lease_has_run_out, take_name

from treadle.core.actions import Start, Stop
from treadle.core.attempt import How
from treadle.core.errors import InvalidInputError
from treadle.core.events import AttemptEnded, DeviceOpened, NodeJoined, NodeLost
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import NodeOrder
from treadle.engines.fleet.membership import NOT_THERE
from treadle.engines.fleet.port import Fencing
from treadle.testing.engine_bench import row


@telling()
async def test_what_runs_on_a_node_that_left_goes_on_when_it_is_back(bench: FleetStory) -> None:
    await both_run(bench)
    before = launches(bench)
    bench.world.cut("n1")
    bench.world.cut("n2")
    view = {each.name: each for each in bench.engine.view()}
    assert [view[name].health for name in ("n0", "n1", "n2")] == ["answers", *["silent"] * 2]
    assert set(view["n1"].stuck) == {"one", "wide"}
    bench.world.mend("n1")
    bench.world.mend("n2")
    await bench.until(lambda: bench.count(DeviceOpened, "") == 2)
    await bench.until(lambda: not any(each.stuck for each in bench.engine.view()))
    assert (bench.runs_on("one"), bench.runs_on("wide")) == ({"n1"}, {"n0", "n2"})
    assert launches(bench) == before
    told = [type(fact) for fact in bench.jobs.facts]
    assert not {NodeLost, NodeJoined, AttemptEnded} & set(told)
    await bench.order(Stop(2, "one"))
    assert (await bench.ended("one", 2)).how is How.STOPPED


@telling()
async def test_an_end_on_a_node_that_left_is_believed_when_it_is_back(bench: FleetStory) -> None:
    release = bench.root / "release"
    bench.job("one", "sh", "-c", f"while test ! -e {release}; do sleep 0.01; done; exit 7")
    await bench.order(Start(0, "one", ONE))
    await bench.started("one", 0)
    bench.world.cut("n1")
    release.touch()
    await bench.until(lambda: not bench.runs_on("one"))
    assert bench.count(AttemptEnded, "one") == 0
    bench.world.mend("n1")
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how, end.code) == (1, How.EXITED, 7)


@telling()
async def test_what_was_stopped_while_its_node_was_away_is_stopped_when_that_returns(
    bench: FleetStory,
) -> None:
    await both_run(bench)
    bench.world.cut("n1")
    await bench.order(Stop(2, "one"))
    assert "n1" in bench.runs_on("one")
    bench.world.mend("n1")
    end = await bench.ended("one", 2)
    assert (end.attempt, end.how) == (1, How.STOPPED)
    assert bench.runs_on("one") == set()
    await bench.until(lambda: bench.count(DeviceOpened, "") == 1)
    await bench.order(Start(3, "one", ONE))
    assert (await bench.started("one", 3)).attempt == 2


@telling()
async def test_a_node_that_has_no_contact_can_be_forgotten(bench: FleetStory) -> None:
    """Its jobs are over by the word of a person, and stopped if it was alive after all."""
    await both_run(bench)
    loop = asyncio.get_running_loop()
    with pytest.raises(InvalidInputError):
        await bench.engine.order_node("n1", NodeOrder.FORGET)
    cut_at = loop.time()
    bench.world.cut("n1")
    await bench.engine.order_node("n1", NodeOrder.FORGET)
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert NodeLost("n1") in bench.jobs.facts
    assert loop.time() - cut_at < GONE_AFTER_S
    assert bench.runs_on("one") == {"n1"}, "it was a person's word"
    bench.world.mend("n1")
    await bench.until(lambda: not bench.runs_on("one"))


@telling()
async def test_a_node_that_was_lost_takes_work_as_soon_as_it_has_joined_again(
    bench: FleetStory,
) -> None:
    """How it stood before it was lost is over: an order in that moment is carried out."""
    await both_run(bench)
    bench.world.cut("n1")
    await bench.engine.order_node("n1", NodeOrder.FORGET)
    await bench.ended("one", 0)
    bench.world.mend("n1")
    await bench.until(lambda: bench.count(NodeJoined, "") == 1)
    await bench.order(Start(5, "one", ONE))
    assert (await bench.started("one", 5)).action == 5


@telling()
async def test_a_controller_with_a_shorter_failover_waits_out_the_longer_one(
    bench: FleetStory,
) -> None:
    await both_run(bench)
    bench.world.cut("n1")
    cut_at = asyncio.get_running_loop().time()
    await bench.engine.close()
    bench.jobs.facts.clear()
    bench.world.fencing = Fencing(failover_s=0.1, margin_s=1.0)
    engine = bench.fresh_engine()
    one = AttemptId("one", 1)
    await engine.adopt([row("one", Phase.RUNNING, ONE)], [one], nodes={one: ["n1"]})
    await bench.ended("one", 0)
    assert asyncio.get_running_loop().time() - cut_at >= GONE_AFTER_S - 0.1
    assert bench.runs_on("one") == set()


async def restarted(bench: FleetStory, *phases: Phase) -> None:
    """n1 is cut off, and another controller takes over. phases: of its rows."""
    bench.world.cut("n1")
    engine = await bench.crash()
    rows = [
        row("one", phases[0], ONE),
        row("wide", phases[1], WIDE, action=1, attempt=1),
    ]
    nodes = {AttemptId("one", 1): ["n1"], AttemptId("wide", 1): ["n0", "n2"]}
    await engine.adopt(rows, list(nodes), nodes=nodes)


@telling()
async def test_what_runs_on_a_node_that_is_away_goes_on_under_the_next_controller(
    bench: FleetStory,
) -> None:
    await both_run(bench)
    before = launches(bench)
    await restarted(bench, Phase.RUNNING, Phase.RUNNING)
    view = {each.name: each for each in bench.engine.view()}
    assert (view["n1"].health, set(view["n1"].stuck)) == ("silent", {"one"})
    bench.world.mend("n1")
    await bench.until(lambda: bench.count(DeviceOpened, ""))
    assert (bench.runs_on("one"), bench.runs_on("wide")) == ({"n1"}, {"n0", "n2"})
    assert launches(bench) == before
    told = {type(fact) for fact in bench.jobs.facts}
    assert not {NodeLost, NodeJoined, AttemptEnded} & told
    await bench.order(Stop(2, "one"))
    end = await bench.ended("one", 2)
    assert (end.attempt, end.how) == (1, How.STOPPED)


@telling()
async def test_an_end_on_a_node_that_is_away_is_believed_by_the_next_controller(
    bench: FleetStory,
) -> None:
    release = bench.root / "release"
    bench.job("one", "sh", "-c", f"while test ! -e {release}; do sleep 0.01; done; exit 7")
    await bench.order(Start(0, "one", ONE))
    await bench.started("one", 0)
    bench.world.cut("n1")
    engine = await bench.crash()
    one = AttemptId("one", 1)
    await engine.adopt([row("one", Phase.RUNNING, ONE)], [one], nodes={one: ["n1"]})
    release.touch()
    await bench.until(lambda: not bench.runs_on("one"))
    assert bench.count(AttemptEnded, "one") == 0
    bench.world.mend("n1")
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how, end.code) == (1, How.EXITED, 7)


@telling()
async def test_a_job_that_was_being_started_on_a_node_that_is_away_is_not_waited_for(
    bench: FleetStory,
) -> None:
    """An attempt before may run there: it is stopped when the node is back."""
    await both_run(bench)
    await restarted(bench, Phase.STARTING, Phase.RUNNING)
    bench.world.mend("n1")
    end = await bench.ended("one", 0)
    assert (end.how, end.node_lost) == (How.LOST, True)
    assert bench.runs_on("one") == set()


@telling()
async def test_a_node_that_stays_away_is_given_up_by_the_controller_after_next(
    bench: FleetStory,
) -> None:
    await both_run(bench)
    await restarted(bench, Phase.RUNNING, Phase.RUNNING)
    await restarted(bench, Phase.RUNNING, Phase.RUNNING)
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert bench.runs_on("one") == set()
    assert [node.name for node in bench.engine.nodes()] == ["n0", "n2"]
    assert len([fact for fact in bench.jobs.facts if fact == NodeLost("n1", NOT_THERE)]) == 1
    await restarted(bench, Phase.WAITING, Phase.RUNNING)
    assert [node.name for node in bench.engine.nodes()] == ["n0", "n2"]


@telling()
async def test_another_machine_with_the_name_of_a_node_that_is_away_has_none_of_its_jobs(
    bench: FleetStory,
) -> None:
    await both_run(bench)
    cut_at = asyncio.get_running_loop().time()
    await restarted(bench, Phase.RUNNING, Phase.RUNNING)
    before = take_name(bench, "n1")
    bench.world.tell(bench.world.joined("n1"))
    await ends_when_its_lease_has_run_out(bench, before, cut_at)
