"""Controllers that follow each other: nodes take orders of the newest, and epochs only grow."""

import pytest
from tests.engines.fleet_story import FleetStory, spread, tell, telling

from treadle.core.actions import Start
from treadle.core.attempt import How
from treadle.core.events import JobStarted
from treadle.engines.agent import messages, wire
from treadle.engines.agent.agent_errors import StaleEpochError
from treadle.engines.fleet.port import NewEpoch
from treadle.engines.node import kept_value


@telling()
async def test_an_agent_refuses_a_controller_that_another_one_has_followed(
    bench: FleetStory,
) -> None:
    await bench.engine.adopt([])
    old = bench.world.epoch
    await bench.crash()
    await bench.engine.adopt([])
    for asked in (messages.Survey(epoch=old), messages.TakeCharge(epoch=old)):
        verb = "survey" if isinstance(asked, messages.Survey) else "take-charge"
        answer = await bench.world.links["n0"].call(verb, wire.encode(asked))
        with pytest.raises(StaleEpochError, match="has taken orders of controller 2, and this"):
            wire.opened(answer, messages.Answered)
    await bench.world.replace_agent("n0")  # It is written down.
    survey = wire.encode(messages.Survey(epoch=old))
    with pytest.raises(StaleEpochError):
        wire.opened(await bench.world.links["n0"].call("survey", survey), messages.Surveyed)


@telling()
async def test_a_controller_that_was_followed_gives_no_more_orders(bench: FleetStory) -> None:
    bench.job("late", "true")
    old = bench.engine
    await old.adopt([])
    bench.fresh_engine()
    await bench.engine.adopt([])
    await old.carry_out([Start(0, "late", spread("n0"))])
    await bench.order(Start(1, "late", spread("n1")))
    await bench.ended("late", 1)
    assert bench.count(JobStarted, "late") == 1
    await old.close()


@telling()
async def test_a_controller_that_was_followed_and_has_the_lease_again_takes_charge_anew(
    bench: FleetStory,
) -> None:
    """Another one was there for a while, and has left."""
    bench.job("late", "true")
    await bench.engine.adopt([])
    for link in bench.world.links.values():
        await link.call("survey", wire.encode(messages.Survey(epoch=5)))
    await bench.order(Start(0, "late", spread("n1")))
    asked = bench.world.links["n1"].calls["take-charge"]
    await bench.until(lambda: bench.world.links["n1"].calls["take-charge"] > asked)
    assert bench.count(JobStarted, "late") == 0
    bench.world.tell(NewEpoch(6))
    await bench.ended("late", 0)
    assert bench.count(JobStarted, "late") == 1


def test_nodes_that_remember_a_higher_epoch_than_the_cluster_are_taken_charge_of(tmp_path):
    """The cluster was started anew, and the controller's own files are gone, and not the nodes'."""
    for name, epoch in (("n1", 33), ("n2", 40)):
        (tmp_path / "nodes" / name).mkdir(parents=True)
        kept_value.write(tmp_path / "nodes" / name / "epoch", str(epoch))

    async def story(bench: FleetStory) -> None:
        bench.job("one", "true")
        await bench.engine.adopt([])
        assert bench.world.epoch == 41
        await bench.order(Start(0, "one", spread("n1")))
        assert (await bench.ended("one", 0)).how is How.EXITED

    tell(tmp_path, story)
