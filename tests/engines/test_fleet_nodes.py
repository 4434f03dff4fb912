"""Nodes that are cut off and return, controllers that die, orders that arrive twice."""

import asyncio
import time

import pytest
from tests.engines.fleet_story import FleetStory, spread, tell, telling
from tests.engines.fleet_world import GONE_AFTER_S

from treadle.core.actions import Start, Stop
from treadle.core.attempt import How
from treadle.core.events import (
    AttemptEnded,
    DeviceClosed,
    DeviceOpened,
    JobStarted,
    NodeJoined,
    NodeLost,
)
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.agent import messages
from treadle.engines.agent.wire import WireLink, answer
from treadle.engines.node import fence
from treadle.testing.engine_bench import row

ONE, WIDE = spread("n1"), spread("n0", "n2")
ROWS = (row("one", Phase.RUNNING, ONE), row("wide", Phase.RUNNING, WIDE, action=1, attempt=1))
ATTEMPTS = (AttemptId("one", 1), AttemptId("wide", 1))
LAUNCHES = 'echo "$TREADLE_JOB_ID $TREADLE_ATTEMPT $RANK" >> launches; exec sleep 86400'


def launches(bench: FleetStory) -> list[str]:
    """All processes that ever ran."""
    path = bench.root / "launches"
    return sorted(path.read_text().splitlines()) if path.exists() else []


async def both_run(bench: FleetStory) -> None:
    """A job on one node, and one on two."""
    for name in ("one", "wide"):
        bench.job(name, "sh", "-c", LAUNCHES)
    await bench.order(Start(0, "one", ONE), Start(1, "wide", WIDE))
    await bench.started("one", 0)
    await bench.started("wide", 1)
    await bench.until(lambda: len(launches(bench)) == 3)


# -- loss -----------------------------------------------------------------------------------------


@telling()
async def test_a_node_that_is_cut_off_kills_its_ranks_and_they_are_lost_after_that(
    bench: FleetStory,
) -> None:
    await both_run(bench)
    loop = asyncio.get_running_loop()
    cut_at = loop.time()
    bench.world.cut("n1")
    assert NodeLost("n1") not in bench.jobs.facts, "its job may go on"
    assert bench.count(DeviceClosed, "") == 1
    assert bench.count(AttemptEnded, "one") == 0
    assert "n1" in bench.runs_on("one")
    end = await bench.ended("one", 0)
    assert NodeLost("n1") in bench.jobs.facts
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert loop.time() - cut_at >= GONE_AFTER_S - 0.1
    assert bench.runs_on("one") == set(), "the fence did not kill its ranks"
    assert bench.runs_on("wide") == {"n0", "n2"}, "other nodes go on"


@telling()
async def test_the_rest_of_an_attempt_is_stopped_when_a_node_is_lost(bench: FleetStory) -> None:
    await both_run(bench)
    bench.world.cut("n2")
    await bench.until(lambda: bench.runs_on("wide") <= {"n2"})
    end = await bench.ended("wide", 1)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert bench.runs_on("wide") == set()
    assert bench.count(AttemptEnded, "wide") == 1


@telling()
async def test_a_lease_that_ran_out_is_not_renewed(bench: FleetStory) -> None:
    """1. A node loses touch for too long. 2. It is confirmed again. 3. Its old ranks end anyway."""
    await both_run(bench)
    agent = bench.world.links["n1"].agent
    old = agent.root / "leases" / "1.lease"
    fence.write(old, fence.now() - 1.0)
    agent.confirm()
    assert not old.exists()
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    await bench.order(Start(2, "one", ONE))
    await bench.started("one", 2)


# -- controllers ----------------------------------------------------------------------------------


@telling()
async def test_a_controller_that_returns_finds_its_attempts_and_launches_none_twice(
    bench: FleetStory,
) -> None:
    await both_run(bench)
    before = launches(bench)
    engine = await bench.crash()
    rows = [ROWS[0], row("wide", Phase.STARTING, WIDE, action=1, attempt=1)]
    await engine.adopt(rows, ATTEMPTS)
    await bench.started("wide", 1)  # Its start was not known before.
    assert bench.count(JobStarted, "one") == 0
    assert bench.runs_on("one") | bench.runs_on("wide") == {"n0", "n1", "n2"}
    await bench.order(Stop(2, "one"), Stop(3, "wide"))
    for name, action in (("one", 2), ("wide", 3)):
        end = await bench.ended(name, action)
        assert (end.attempt, end.how) == (1, How.STOPPED)
    assert launches(bench) == before == ["one 1 0", "wide 1 0", "wide 1 1"]


@telling()
async def test_a_controller_that_returns_learns_of_ends(bench: FleetStory) -> None:
    """1. A rank of a job on two nodes fails while no controller is there."""
    release = bench.root / "release"
    wait = f"while test ! -e {release}; do sleep 0.01; done; exit $((RANK * 5))"
    bench.job("wide", "sh", "-c", wait)
    await bench.order(Start(0, "wide", WIDE))
    await bench.started("wide", 0)
    engine = await bench.crash()
    release.touch()
    await bench.until(lambda: bench.runs_on("wide") == set())
    await engine.adopt([row("wide", Phase.RUNNING, WIDE)], [AttemptId("wide", 1)])
    end = await bench.ended("wide", 0)
    assert (end.attempt, end.how, end.code, end.codes) == (1, How.EXITED, 5, (0, 5))


@telling()
async def test_a_change_to_another_node_that_is_owed_never_runs_beside_the_old_attempt(
    bench: FleetStory,
) -> None:
    bench.job("one", "sh", "-c", LAUNCHES)
    await bench.order(Start(0, "one", ONE))
    await bench.started("one", 0)
    engine = await bench.crash()
    attempts = [AttemptId("one", 1), AttemptId("one", 2)]
    await engine.adopt([row("one", Phase.STARTING, spread("n2"), action=1)], attempts)
    await bench.started("one", 1)
    facts = [type(fact) for fact in bench.jobs.facts]
    assert facts == [AttemptEnded, JobStarted]
    assert bench.runs_on("one") == {"n2"}


@telling()
async def test_a_node_that_did_not_return_with_the_controller_is_waited_for_until_it_is_fenced(
    bench: FleetStory,
) -> None:
    await both_run(bench)
    await bench.engine.close()
    bench.world.cut("n1")
    engine = await bench.crash()
    await engine.adopt(ROWS, ATTEMPTS)
    assert bench.count(AttemptEnded, "one") == 0
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert bench.runs_on("one") == set()
    assert bench.runs_on("wide") == {"n0", "n2"}


@pytest.mark.parametrize(
    ("phase", "moved"), [(Phase.STOPPING, None), (Phase.STARTING, spread("n0"))]
)
@telling()
async def test_what_leaves_a_lost_node_is_not_believed_to_be_gone_before_it_is_fenced(
    bench: FleetStory, phase, moved
) -> None:
    """The rows of jobs that were stopped, or moved, do not say where their attempts were."""
    await both_run(bench)
    await bench.engine.close()
    bench.world.cut("n1")
    bench.world.cut("n2")
    engine = await bench.crash()
    attempts = dict(zip(ATTEMPTS, (("n1",), ("n0", "n2")), strict=True))
    if moved is not None:
        attempts[AttemptId("one", 2)] = ("n0",)
    jobs = [row("one", phase, moved, action=2), row("wide", Phase.STOPPING, action=3)]
    await engine.adopt(jobs, list(attempts), nodes=attempts)
    assert bench.count(AttemptEnded, "one") == bench.count(AttemptEnded, "wide") == 0
    assert bench.runs_on("one") == {"n1"}
    for job, action in (("one", 2), ("wide", 3)):
        end = await bench.ended(job, action)
        assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
        assert bench.runs_on(job) == set()
    assert len(launches(bench)) == 3


@telling()
async def test_a_member_whose_agent_is_late_is_not_taken_for_lost(bench: FleetStory) -> None:
    """1. The controller returns. One node is gone; of another one it hears nothing, which is a
    member still. 2. The fence of the first closes, and what runs on the other runs on. 3. Its agent
    comes: what was given up is stopped, and only then has it ended.
    """
    await both_run(bench)
    await bench.engine.close()
    bench.world.late.add("n1")
    bench.world.cut("n2")
    engine = await bench.crash()
    await engine.adopt(ROWS, ATTEMPTS)
    await bench.ended("wide", 1)
    assert bench.count(AttemptEnded, "one") == 0
    assert bench.runs_on("one") == {"n1"}
    bench.world.late.remove("n1")
    bench.world.tell(bench.world.joined("n1"))
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert bench.runs_on("one") == set()


@telling()
async def test_a_node_that_leaves_while_the_controller_begins_is_not_waited_for(
    bench: FleetStory,
) -> None:
    await both_run(bench)
    engine = await bench.crash()
    bench.world.links["n2"].refused.add("survey")
    epoch = bench.world.epoch
    adopting = asyncio.ensure_future(engine.adopt(ROWS, ATTEMPTS))
    await bench.until(lambda: bench.world.epoch > epoch)
    bench.world.cut("n2")
    await adopting
    assert NodeLost("n2") in bench.jobs.facts
    end = await bench.ended("wide", 1)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert bench.runs_on("wide") == set()
    assert bench.runs_on("one") == {"n1"}


@telling()
async def test_an_agent_that_is_replaced_while_the_controller_begins_is_asked_instead(
    bench: FleetStory,
) -> None:
    """Chaos, seed 7: the controller waited for the one before, and gave up."""
    await both_run(bench)
    engine = await bench.crash()
    bench.world.links["n1"].refused.add("survey")
    epoch = bench.world.epoch
    adopting = asyncio.ensure_future(engine.adopt(ROWS, ATTEMPTS))
    await bench.until(lambda: bench.world.epoch > epoch)
    await bench.world.replace_agent("n1")
    await adopting
    await bench.order(Stop(2, "one"))
    end = await bench.ended("one", 2)
    assert (end.attempt, end.how) == (1, How.STOPPED)
    assert bench.runs_on("wide") == {"n0", "n2"}
    assert len(launches(bench)) == 3


# -- links and agents -----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["orders", "take-charge", "facts", "prepare"])
@telling()
async def test_what_was_done_and_not_answered_is_not_done_twice(bench: FleetStory, verb) -> None:
    for link in bench.world.links.values():
        link.lose_answers_of.add(verb)
    await both_run(bench)
    await bench.order(Stop(2, "one"), Stop(3, "wide"))
    await bench.ended("one", 2)
    await bench.ended("wide", 3)
    assert launches(bench) == ["one 1 0", "wide 1 0", "wide 1 1"]
    for name in ("one", "wide"):
        assert (bench.count(JobStarted, name), bench.count(AttemptEnded, name)) == (1, 1)


@telling()
async def test_an_agent_that_dies_is_followed_by_one_that_finds_what_runs(
    bench: FleetStory,
) -> None:
    await both_run(bench)
    for name in ("n0", "n1"):
        await bench.world.replace_agent(name)
    await bench.order(Stop(2, "one"), Stop(3, "wide"))
    for name, action in (("one", 2), ("wide", 3)):
        end = await bench.ended(name, action)
        assert (end.attempt, end.how) == (1, How.STOPPED)
    assert launches(bench) == ["one 1 0", "wide 1 0", "wide 1 1"]
    assert not any(isinstance(fact, NodeLost | NodeJoined) for fact in bench.jobs.facts)


# -- health ---------------------------------------------------------------------------------------


@telling()
async def test_a_view_says_how_the_agent_of_each_node_does(bench: FleetStory) -> None:
    """1. All answer. 2. One does not, and the cluster does not say that it left."""
    await bench.order()
    await bench.until(lambda: {each.health for each in bench.engine.view()} == {"answers"})
    client = bench.engine.clients["n1"]
    bench.world.links["n1"].cut = True
    now = time.monotonic()
    slow, silent = (client.health_at(now + quiet_s) for quiet_s in (7.0, 30.0))
    assert (slow.word, silent.word) == ("slow", "silent")
    assert slow.since_at == silent.since_at == pytest.approx(time.time(), abs=30.0)
    assert client.health_at(now) == ("answers", None, "")


@telling()
async def test_what_was_given_up_with_its_node_is_not_told_of_again_when_that_returns(
    bench: FleetStory,
) -> None:
    """1. A controller takes a job over. 2. Its node is lost, and that is told. 3. It returns."""
    bench.job("a", "sleep", "86400")
    await bench.order(Start(0, "a", spread("n1")))
    await bench.started("a", 0)
    engine = await bench.crash()
    running = row("a", Phase.RUNNING, spread("n1"), action=0, attempt=0)
    await engine.adopt([running], [AttemptId("a", 1)], nodes={AttemptId("a", 1): ["n1"]})
    bench.world.cut("n1")
    assert (await bench.ended("a", 0)).how is How.LOST
    bench.world.mend("n1")
    bench.job("b", "sleep", "86400")
    await bench.until(lambda: bench.count(DeviceOpened, "") == 1)
    await bench.order(Start(1, "b", spread("n1")))
    await bench.started("b", 1)  # Whatever its agent found was told before.
    assert bench.count(AttemptEnded, "a") == 1


def test_an_answer_that_nothing_foresees_costs_no_node(tmp_path, caplog):
    async def story(bench: FleetStory) -> None:
        bench.job("one", "sleep", "86400")
        await bench.order(Start(0, "one", spread("n1")))
        await bench.started("one", 0)
        link = bench.world.links["n1"]
        link.garbled.add("facts")
        await bench.until(lambda: link.calls["take-charge"] == 2)
        await bench.order(Stop(1, "one"))
        await bench.ended("one", 1)

    tell(tmp_path, story)
    assert "node n1" in caplog.text


@telling()
async def test_a_job_whose_node_was_lost_does_not_wait_for_ever_after_such_an_answer(
    bench: FleetStory,
) -> None:
    bench.job("one", "sleep", "86400")
    await bench.order(Start(0, "one", spread("n1")))
    await bench.started("one", 0)
    bench.world.cut("n1")
    engine = await bench.crash()
    one = AttemptId("one", 1)
    await engine.adopt([row("one", Phase.STARTING, ONE)], [one], nodes={one: ["n1"]})
    bench.world.mend("n1")
    bench.world.links["n1"].garbled.add("gone")
    assert (await bench.ended("one", 0)).node_lost
    assert not bench.world.links["n1"].garbled


class Held(WireLink):
    """A link whose answers come when the story says so."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[bytes]] = []

    async def call(self, verb: str, document: bytes) -> bytes:
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]


@telling()
async def test_an_answer_that_is_there_when_its_node_leaves_is_not_taken(bench: FleetStory) -> None:
    await bench.engine.adopt([])
    seen, held = bench.engine._views.seen, Held()
    bench.engine.clients["n1"]._link = held
    await bench.until(lambda: held.asked)
    given = messages.FactsGiven(facts=(), upto=0, view=seen["n1"], measurements=(), now=0.0)
    held.asked[0].set_result(answer(given))
    bench.world.cut("n1")
    await bench.until(lambda: bench.world.links["n0"].calls["facts"] > 3)
    assert "n1" not in seen
    assert "n1" not in bench.engine._sightings
