"""Parts of attempts on nodes that were lost: nothing runs beside them before they are over."""

import asyncio
from collections.abc import Coroutine

from tests.engines.fleet_story import FleetStory, spread, telling
from tests.engines.fleet_world import GONE_AFTER_S, InProcessLink

from treadle.core.actions import Start
from treadle.core.attempt import How
from treadle.core.cluster import Node
from treadle.core.events import AttemptEnded, JobStarted, NodeLost
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.agent import messages, wire
from treadle.engines.agent.agent import Agent
from treadle.engines.fleet.machines import Machines, NoLink
from treadle.engines.fleet.port import Joined
from treadle.engines.node import processes
from treadle.engines.node.environment import TAG
from treadle.testing.engine_bench import row

ONE, OTHER = spread("n1"), spread("n2")
ROWS = [row("one", Phase.RUNNING, ONE), row("other", Phase.RUNNING, OTHER, action=1, attempt=1)]
ATTEMPTS = [AttemptId("one", 1), AttemptId("other", 1)]


async def both_run(bench: FleetStory) -> None:
    for name, order in (("one", Start(0, "one", ONE)), ("other", Start(1, "other", OTHER))):
        bench.job(name, "sleep", "86400")
        await bench.order(order)
        await bench.started(name, order.id)


async def goes_on_until_its_agent_answers(bench: FleetStory) -> None:
    """Another node is fenced by the clock, and this one is not: it is a member."""
    end = await bench.ended("other", 1)
    assert (end.how, end.node_lost) == (How.LOST, True)
    assert bench.runs_on("other") == set()
    assert bench.runs_on("one") == {"n1"}, "its lease is renewed"
    assert bench.count(AttemptEnded, "one") == 0, "it was given up while it ran"
    bench.world.links["n1"].refused.clear()


async def is_over_when_its_agent_answers(bench: FleetStory) -> None:
    await goes_on_until_its_agent_answers(bench)
    end = await bench.ended("one", 0)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert bench.runs_on("one") == set()
    await bench.order(Start(2, "one", spread("n0")))
    assert (await bench.started("one", 2)).attempt == 2


@telling()
async def test_the_clock_does_not_fence_a_node_that_is_a_member_again(bench: FleetStory) -> None:
    """1. Two nodes are cut off. 2. One returns before its lease has run out, with a slow agent."""
    await both_run(bench)
    bench.world.cut("n1")
    bench.world.cut("n2")
    bench.world.mend("n1")
    bench.world.links["n1"].refused.add("take-charge")
    await goes_on_until_its_agent_answers(bench)
    client = bench.engine.clients["n1"]
    await bench.until(lambda: client.health().word == "answers")
    assert bench.runs_on("one") == {"n1"}
    assert bench.count(AttemptEnded, "one") == 0


@telling()
async def test_the_clock_does_not_fence_a_node_that_joins_while_a_controller_takes_over(
    bench: FleetStory,
) -> None:
    """1. Two nodes are no members when the controller begins. 2. One joins while it looks at the
    others, with a slow agent, and its lease goes on.
    """
    await both_run(bench)
    await bench.engine.close()
    bench.world.cut("n1")
    bench.world.cut("n2")
    engine = await bench.crash()
    bench.world.links["n0"].refused.add("survey")
    adopting = await begun(bench, engine.adopt(ROWS, ATTEMPTS))
    bench.world.mend("n1")
    bench.world.links["n1"].refused.add("take-charge")
    bench.world.links["n0"].refused.clear()
    await adopting
    await is_over_when_its_agent_answers(bench)


@telling()
async def test_an_older_attempt_on_a_missing_node_is_waited_for_though_the_newest_order_names_it(
    bench: FleetStory,
) -> None:
    """1. A job on two nodes is moved, and one of its parts has ended. 2. Of the node of the other
    one nothing is heard when the next controller begins; the job is to run there again.
    """
    release = bench.root / "release"
    wait = f"while test $RANK = 1 || test ! -e {release}; do sleep 0.01; done"
    bench.job("wide", "sh", "-c", wait)
    await bench.order(Start(0, "wide", spread("n0", "n1")))
    await bench.started("wide", 0)
    await bench.engine.close()
    release.touch()
    await bench.until(lambda: bench.runs_on("wide") == {"n1"})
    bench.world.late.add("n1")
    engine = await bench.crash()
    moved = row("wide", Phase.STARTING, spread("n1", "n2"), action=1)
    nodes = {AttemptId("wide", 1): ("n0", "n1"), AttemptId("wide", 2): ("n1", "n2")}
    await engine.adopt([moved], list(nodes), nodes=nodes)
    assert bench.count(AttemptEnded, "wide") == 0, "it runs on the node that is missing"
    bench.world.late.remove("n1")
    bench.world.tell(bench.world.joined("n1"))
    end = await bench.ended("wide", 1)
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert bench.runs_on("wide") == set()


async def begun(bench: FleetStory, adopting: Coroutine[None, None, None]) -> "asyncio.Task[None]":
    """The controller has begun to take over, and does not come to an end."""
    epoch = bench.world.epoch
    task = asyncio.get_running_loop().create_task(adopting)
    await bench.until(lambda: bench.world.epoch > epoch)
    return task


@telling()
async def test_an_agent_says_that_a_job_is_gone_when_none_of_its_attempts_is_left(
    bench: FleetStory,
) -> None:
    """Whatever their numbers: it may have launched another one than its controller knows."""
    stubborn = "trap '' TERM; touch ready; while :; do sleep 0.01; done"
    bench.job("one", "sh", "-c", stubborn, grace_s=1.0)
    await bench.order(Start(0, "one", ONE))
    await bench.until((bench.root / "ready").exists)
    link = bench.world.links["n1"]

    async def gone(*jobs: JobId, wait_s: float) -> tuple[JobId, ...]:
        asked = messages.GoneAsked(session=charged.session, jobs=jobs, wait_s=wait_s)
        answer = await link.call("gone", wire.encode(asked))
        return wire.opened(answer, messages.Gone).jobs

    charge = wire.encode(messages.TakeCharge(epoch=bench.world.epoch + 1))
    charged = wire.opened(await link.call("take-charge", charge), messages.Charged)
    assert await gone("one", "other", wait_s=9.0) == ("other",), "one is being stopped"
    assert await gone("one", wait_s=0.0) == ()
    assert await gone("one", wait_s=20.0) == ("one",)
    assert bench.runs_on("one") == set()


@telling()
async def test_the_clock_of_a_machine_that_leaves_again_begins_anew(bench: FleetStory) -> None:
    """1. A node leaves. 2. It is back, and its agent does not answer. 3. It leaves once more."""
    loop = asyncio.get_running_loop()
    await both_run(bench)
    bench.world.cut("n1")
    bench.world.mend("n1")
    bench.world.links["n1"].refused.add("take-charge")
    await bench.until(lambda: bench.world.links["n1"].calls["take-charge"])
    cut_at = loop.time()
    bench.world.cut("n1")
    await bench.ended("one", 0)
    assert loop.time() - cut_at >= GONE_AFTER_S - 0.1


def take_name(bench: FleetStory, name: str) -> Agent:
    """Another machine has the name of a node from now on; the agent before."""
    before = bench.world.links[name].agent
    bench.world.root = bench.root / f"{name} elsewhere"  # Its disk is another one too.
    bench.world.links[name] = InProcessLink(bench.world._agent(name))
    bench.world.away.discard(name)
    return before


def alive(agent: Agent, job: JobId) -> bool:
    return bool(processes.tagged(TAG, f"{agent.folders.instance}-{job}-*"))


async def ends_when_its_lease_has_run_out(bench: FleetStory, before: Agent, cut_at: float) -> None:
    end = await bench.ended("one", 0)
    took_s = asyncio.get_running_loop().time() - cut_at
    is_alive = alive(before, "one")
    await before.close()
    assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)
    assert took_s >= GONE_AFTER_S - 0.1
    assert not is_alive
    assert bench.count(JobStarted, "one") <= 1


@telling()
async def test_an_agent_on_another_machine_proves_nothing_before_the_lease_has_run_out(
    bench: FleetStory,
) -> None:
    """1. A node is cut off. 2. Another machine takes its name: it has no attempts of the job."""
    await both_run(bench)
    cut_at = asyncio.get_running_loop().time()
    bench.world.cut("n1")
    before = take_name(bench, "n1")
    bench.world.tell(bench.world.joined("n1"))
    await ends_when_its_lease_has_run_out(bench, before, cut_at)


@telling()
async def test_another_machine_that_leaves_and_returns_proves_nothing(bench: FleetStory) -> None:
    """The controller has taken charge of it in between."""
    await both_run(bench)
    cut_at = asyncio.get_running_loop().time()
    bench.world.cut("n1")
    before = take_name(bench, "n1")
    bench.world.tell(bench.world.joined("n1"))
    await bench.engine.clients["n1"].ready()
    bench.world.cut("n1")
    bench.world.mend("n1")
    await ends_when_its_lease_has_run_out(bench, before, cut_at)


@telling()
async def test_another_machine_takes_the_name_of_a_node_and_nothing_says_that_it_left(
    bench: FleetStory,
) -> None:
    """So it is if the driver of the cluster dies, and the next one finds another machine."""
    await both_run(bench)
    cut_at = asyncio.get_running_loop().time()
    bench.world.links["n1"].cut = True
    before = take_name(bench, "n1")
    bench.world.tell(bench.world.joined("n1"))
    await ends_when_its_lease_has_run_out(bench, before, cut_at)
    assert bench.count(NodeLost, "") == 1


@telling()
async def test_another_machine_has_the_name_when_a_controller_takes_over(bench: FleetStory) -> None:
    await both_run(bench)
    cut_at = asyncio.get_running_loop().time()
    before = take_name(bench, "n1")
    engine = await bench.crash()
    nodes = {AttemptId("one", 1): ("n1",)}
    await engine.adopt([row("one", Phase.RUNNING, ONE)], list(nodes), nodes=nodes)
    await ends_when_its_lease_has_run_out(bench, before, cut_at)


@telling()
async def test_the_machine_of_a_lost_part_is_known_to_the_controller_after_next(
    bench: FleetStory,
) -> None:
    """1. Another machine takes the name. 2. Controllers die. 3. The first machine is back, with its
    lease: its agent is asked, and the time proves nothing.
    """
    await both_run(bench)
    bench.world.cut("n2")
    bench.world.cut("n1")
    before = take_name(bench, "n1")
    bench.world.tell(bench.world.joined("n1"))
    await bench.engine.clients["n1"].ready()
    engine = await bench.crash()
    nodes = {ATTEMPTS[0]: ("n1",), ATTEMPTS[1]: ("n2",)}
    await engine.adopt(ROWS, list(nodes), nodes=nodes)
    bench.world.cut("n1")
    await bench.world.links["n1"].agent.close()
    bench.world.links["n1"] = InProcessLink(before)
    bench.world.mend("n1")
    bench.world.links["n1"].refused.add("take-charge")
    await is_over_when_its_agent_answers(bench)


def member(name: str, machine: str) -> Joined:
    return Joined(Node(name, 1), "127.0.0.1", NoLink(), machine)


def test_what_was_written_down_of_machines_is_believed_of_the_controller_before_alone(tmp_path):
    path = tmp_path / "machines.json"
    first = Machines(path)
    first.take_over(7)
    first.settle([member("n1", "a"), member("n2", "b")], lost=())
    first.joined(member("n1", "c"), beside=True)
    second = Machines(path)
    second.take_over(8)
    assert second.known() == {"n2": "b"}, "parts on n1 may be on one machine or the other"
    assert [each.node.name for each in second.away(())] == ["n2"]
    second.joined(member("n1", "c"), beside=False)
    later = Machines(path)
    later.take_over(10)
    assert later.known() == {}, "controller 9 may have used other machines"
