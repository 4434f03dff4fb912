"""Agents that answer while the cluster does not confirm them, as when its head hangs."""

import logging

import pytest
from tests.engines.fleet_story import FleetStory, spread, tell, telling
from tests.engines.test_silent_nodes import DEVICES, OPENED, changes, view_of

from treadle.core.actions import Start
from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.events import AttemptEnded, DeviceClosed, NodeLost
from treadle.engines.fleet import node_client, silent_nodes
from treadle.engines.fleet.silent_nodes import UNCONFIRMED

REASON = "the head does not answer node n1"
CLOSED = DeviceClosed(DEVICES[0], REASON, UNCONFIRMED, tuple(DEVICES[1:]))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_client, "FACTS_WAIT_S", 0.05)
    monkeypatch.setattr(silent_nodes, "LOOK_EVERY_S", 0.05)


def head_hangs(bench: FleetStory) -> None:
    """The node is a member, its agent answers, and is not confirmed any more."""
    bench.world.away.add("n1")
    bench.world.links["n1"].agent.doubt(REASON)


def head_answers(bench: FleetStory) -> None:
    bench.world.away.discard("n1")


def test_nothing_is_started_on_a_node_until_the_cluster_confirms_it_again(
    tmp_path, caplog: pytest.LogCaptureFixture
):
    """1. A job runs. 2. The lease is not renewed: the node is closed, then the job is killed. 3. It
    is ordered there again, as is one on two nodes: both go back to the queue. 4. The lease is
    renewed: the node is open.
    """

    async def story(bench: FleetStory) -> None:
        bench.job("one", "sleep", "86400")
        bench.job("wide", "sleep", "86400")
        await bench.order(Start(0, "one", spread("n1")))
        await bench.started("one", 0)
        head_hangs(bench)
        await bench.until(lambda: changes(bench) == [CLOSED])
        view = view_of(bench, "n1")
        assert (view.health, view.because) == ("unconfirmed", REASON)
        assert view.stuck["one"].startswith(f"{REASON} (")
        assert view_of(bench, "n0").health == "answers"
        lost = await bench.ended("one", 0)
        assert (lost.attempt, lost.how, lost.node_lost) == (1, How.LOST, True)
        await bench.order(Start(1, "one", spread("n1")))
        await bench.order(Start(2, "wide", Allocation((Device("n0", 0), DEVICES[1]))))
        for job, action in (("one", 1), ("wide", 2)):
            end = await bench.ended(job, action)
            assert (end.attempt, end.how) == (0, How.STOPPED)
        assert [device.state for device in view_of(bench, "n1").devices] == [UNCONFIRMED] * 3
        head_answers(bench)
        await bench.until(lambda: changes(bench) == [CLOSED, OPENED])
        assert view_of(bench, "n1").health == "answers"
        await bench.order(Start(3, "one", spread("n1")))
        await bench.started("one", 3)
        assert bench.count(AttemptEnded, "one") == 2
        assert not any(isinstance(fact, NodeLost) for fact in bench.jobs.facts)

    with caplog.at_level(logging.WARNING, "treadle"):
        tell(tmp_path, story)
    said = [line for line in caplog.messages if line.endswith(": nothing is started there")]
    assert len(said) == 1
    assert said[0].startswith(f"{REASON} (")


@telling()
async def test_what_is_ordered_before_the_controller_knows_goes_back_to_the_queue_too(
    bench: FleetStory,
) -> None:
    """Answers of the agent do not come through; the order does, and is not carried out."""
    bench.job("one", "sleep", "86400")
    await bench.engine.adopt([])
    link = bench.world.links["n1"]
    link.refused.add("facts")
    head_hangs(bench)
    await bench.until(lambda: link.agent._doubt() is not None)
    assert changes(bench) == []
    await bench.order(Start(0, "one", spread("n1")))
    await bench.until(lambda: link.calls["orders"])
    assert bench.runs_on("one") == set()
    link.refused.clear()
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how) == (0, How.STOPPED)
    (closed,) = changes(bench)
    assert bench.jobs.facts.index(closed) < bench.jobs.facts.index(end), "no second order"


@telling()
async def test_a_node_of_which_no_controller_can_take_charge_is_closed(bench: FleetStory) -> None:
    """Its lease has run out, and its agent does not know the controller any more."""
    await bench.engine.adopt([])
    head_hangs(bench)
    link = bench.world.links["n1"]
    link.refused.add("facts")
    grant = link.agent._grant
    assert grant is not None
    await bench.until(lambda: grant.is_over)
    await link.agent._end_session()
    assert changes(bench) == []
    link.refused.clear()
    await bench.until(lambda: changes(bench) == [CLOSED])
    head_answers(bench)
    await bench.until(lambda: changes(bench) == [CLOSED, OPENED])
