"""Members that do not say what they have when a controller takes over."""

import pytest
from tests.engines.fleet_story import FleetStory, telling
from tests.engines.test_fleet_nodes import ATTEMPTS, ROWS, both_run

from treadle.core.attempt import How
from treadle.core.events import AttemptEnded, NodeJoined, NodeLost
from treadle.engines.agent import messages
from treadle.engines.fleet import survey


@telling()
async def test_a_member_that_does_not_answer_keeps_no_controller_from_beginning(
    bench: FleetStory, monkeypatch
) -> None:
    """Its jobs are not run elsewhere before it says that nothing of them is left."""
    monkeypatch.setattr(survey, "WITHIN_S", 3.0)
    await both_run(bench)
    engine = await bench.crash()
    bench.world.links["n1"].refused.add("survey")
    await engine.adopt(ROWS, ATTEMPTS)
    assert NodeLost("n1") in bench.jobs.facts
    assert "n1" not in [node.name for node in engine.nodes()]
    assert bench.runs_on("one") == {"n1"}
    assert bench.count(AttemptEnded, "one") == 0
    bench.world.links["n1"].refused.discard("survey")
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert bench.runs_on("one") == set()
    assert bench.runs_on("wide") == {"n0", "n2"}
    assert [fact.node.name for fact in bench.jobs.facts if isinstance(fact, NodeJoined)] == ["n1"]


@pytest.mark.parametrize("answer", ["garbled", "an error"])
@telling()
async def test_an_agent_that_cannot_be_surveyed_keeps_no_controller_from_beginning(
    bench: FleetStory, monkeypatch, answer
) -> None:
    """What runs there is not run elsewhere meanwhile."""
    monkeypatch.setattr(survey, "WITHIN_S", 3.0)
    await both_run(bench)
    engine = await bench.crash()
    link = bench.world.links["n1"]
    if answer == "garbled":
        link.garbled.add("survey")
    else:
        look = link.agent._look
        failures = iter([ValueError("a file that nothing foresees")])

        def fails(asked: messages.Survey) -> messages.Surveyed:
            for failure in failures:
                raise failure
            return look(asked)

        monkeypatch.setattr(link.agent, "_look", fails)
    await engine.adopt(ROWS, ATTEMPTS)
    assert NodeLost("n1") in bench.jobs.facts
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert bench.runs_on("wide") == {"n0", "n2"}
