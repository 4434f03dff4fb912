"""Nodes that are lost, that do not answer, and those of the beginning."""

import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.unit.control.memory import ME, Bench, play_on, playing
from treadle.control.jobs import FIRST_NODES, NODES, holding, nodes_at_start, text_of
from treadle.control.jobs.lost_nodes import KEPT_S, NODES_MAX, LostNodes
from treadle.core.cluster import Device, Node
from treadle.core.errors import TreadleError
from treadle.core.events import DeviceClosed, DeviceOpened, NodeLost
from treadle.core.machine import NodeView
from treadle.engines.fleet.fleet_views import unused_nodes
from treadle.engines.memory import MemoryEngine
from treadle.engines.memory_world import MemoryWorld
from treadle.store.rows import JobRow
from treadle.store.store import Store
from treadle.wire.jobs import State
from treadle.wire.problems import ConflictError


def test_a_node_that_was_lost_before_a_restart_is_not_used_after_it(tmp_path: Path) -> None:
    """1. A node is lost. 2. The daemon restarts before the job there has ended. 3. It ends."""
    world = MemoryWorld.of(Node("a", 2, "none"), Node("b", 1, "none"))
    jobs: list[str] = []
    over_at: list[float] = []

    async def first(here: Bench) -> None:
        jobs.append(await here.submit("forever", devices="2"))
        await here.reached(jobs[0], State.RUNNING)
        here.memory.hang(jobs[0])  # Whether it runs on is not known yet.
        del world.nodes["a"]
        here.live.context.inbox.tell(NodeLost("a"))
        await here.settle()
        over_at.append(time.time())

    async def second(here: Bench) -> None:
        await here.settle()
        assert [node.name for node in here.live.context.scheduler.cluster.nodes] == ["b"]
        assert here.live.status().devices == 1
        (lost,) = [each for each in (await here.live.spells()).nodes if each.name == "a"]
        assert lost.to_at is not None
        assert lost.to_at < over_at[0], "it was lost before the restart"
        await here.live.cancel(ME, jobs[0])
        here.memory.release(jobs[0])
        await here.reached(jobs[0], State.CANCELLED)

    play_on(world, first, tmp_path)
    play_on(world, second, tmp_path)


def test_a_lost_node_is_listed_and_waited_for_until_it_is_back(tmp_path: Path) -> None:
    """1. A node is lost. 2. Jobs that need it wait. 3. The daemon restarts. 4. It joins again."""
    node = Node("b", 2, "none")
    world = MemoryWorld.of(Node("a", 1, "none"), node)
    jobs: list[str] = []

    async def first(here: Bench) -> None:
        here.memory.lose_node("b")
        await here.settle()
        lost = here.live.nodes()[1]
        assert (lost.name, lost.health, lost.because) == ("b", "lost", "the test lost it")
        assert not lost.noticed
        assert lost.since_at is not None
        assert abs(time.time() - lost.since_at) < 60
        assert [(each.name, each.state) for each in lost.devices] == [
            ("b:0", "lost"),
            ("b:1", "lost"),
        ]
        status = here.live.status()
        assert (status.devices, status.nodes, status.lost_nodes) == (1, 1, 1)
        with pytest.raises(
            ConflictError, match=r"node b was lost .* ago; it takes no orders until"
        ):
            await here.live.order_node(ME, "b", "drain")
        jobs.append(await here.submit("true", devices="3"))

    async def second(here: Bench) -> None:
        assert [each.health for each in here.live.nodes()] == ["", "lost"]
        why = await here.live.why(jobs[0])
        assert (why.code, why.never) == ("away", False)
        assert why.numbers["lost"] == ("b",)
        here.memory.add_node(node)
        await here.reached(jobs[0], State.SUCCEEDED)
        assert [each.health for each in here.live.nodes()] == ["", ""]
        (said,) = [e.text for e in (await here.live.events(limit=500)).events if "lost" in e.text]
        assert said == "node b was lost: the test lost it"

    play_on(world, first, tmp_path)
    play_on(world, second, tmp_path)


def test_the_first_answer_of_a_daemon_knows_which_nodes_are_gone(tmp_path: Path) -> None:
    world = MemoryWorld.of(Node("a", 2, "none"), Node("b", 1, "none"))

    async def first(here: Bench) -> None:
        await here.runs(devices="2")
        del world.nodes["a"]

    async def second(here: Bench) -> None:
        status = here.live.status()
        assert (status.devices, status.nodes, status.lost_nodes, status.running) == (1, 1, 1, 0)
        assert [node.noticed for node in here.live.nodes() if node.health == "lost"] == [True]
        with pytest.raises(ConflictError, match=r"node a is lost, which was noticed .* ago; it"):
            await here.live.order_node(ME, "a", "drain")

    play_on(world, first, tmp_path)
    play_on(world, second, tmp_path)


def test_a_node_that_others_use_when_the_daemon_begins_is_not_called_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = MemoryWorld.of(Node("a", 1, "none"), Node("b", 2, "none"))
    why, view = "other Ray work holds a part of its 2 CPUs", MemoryEngine.view

    def with_unused(engine: MemoryEngine) -> tuple[NodeView, ...]:
        return (*view(engine), *unused_nodes({"b": why}, ("a",)))

    async def first(here: Bench) -> None:
        assert here.live.status().nodes == 2
        del world.nodes["b"]
        monkeypatch.setattr(MemoryEngine, "view", with_unused)

    async def second(here: Bench) -> None:
        said = f"node b is not used: {why}"
        status = here.live.status()
        assert (status.nodes, status.lost_nodes, status.unused_nodes) == (1, 0, 1)
        assert status.problem == said
        assert [(node.health, node.warning) for node in here.live.nodes()][1:] == [("unused", said)]
        job = await here.submit("true", devices="3")
        await here.settle()
        assert (await here.live.why(job)).numbers["because"] == f"not used ({why})"

    play_on(world, first, tmp_path)
    play_on(world, second, tmp_path)


def test_of_many_lost_nodes_the_last_are_remembered_for_a_while() -> None:
    nodes = [Node(f"n{number}", 1) for number in range(NODES_MAX + 1)]
    lost = LostNodes(nodes)
    for at, node in enumerate(nodes):
        lost.lost(node.name, "", float(at))
        lost.lost(node.name, "again", 1e9)
    assert [each.node for each in lost.all(100.0)] == nodes[1:]
    assert [each.node.name for each in lost.all(KEPT_S + 63.5)] == ["n64"]


def test_a_node_that_is_lost_while_its_job_is_resized_is_named(tmp_path: Path) -> None:
    """1. A job on two nodes is ordered to leave one. 2. That one is lost before the job has."""
    world = MemoryWorld.of(Node("a", 2, "none"), Node("b", 2, "none"))

    async def story(here: Bench) -> None:
        job = await here.runs(devices="1..4", resumable=True)
        here.memory.hang(job)
        await here.submit("forever", devices="1..4", resumable=True)
        await here.reached(job, State.RESIZING)
        row = here.live.context.scheduler.jobs[job]
        assert row.allocation is not None
        (left,) = {"a", "b"} - set(row.allocation.nodes())
        del world.nodes[left]
        here.live.context.inbox.tell(NodeLost(left))
        await here.settle()
        assert here.state(job) is State.RESIZING
        why = await here.live.why(job)
        assert (why.code, why.numbers["nodes"]) == ("node-lost", (left,))
        assert why.numbers["resumable"]

    play_on(world, story, tmp_path, policy="afs")


def test_a_job_on_a_lost_node_runs_no_longer_and_never_less(tmp_path: Path) -> None:
    """1. A node is lost, and the end of its job is not known yet. 2. It has ended."""
    world = MemoryWorld.of(Node("a", 1, "none"), Node("b", 1, "none"))

    async def story(here: Bench) -> None:
        job = await here.runs()
        here.memory.hang(job)
        (device,) = (await here.live.job(job)).job.devices
        here.live.context.inbox.tell(NodeLost(device.partition(":")[0], "the test lost it"))
        await here.reached(job, State.STOPPING)
        shown = (await here.live.job(job)).job.running_s
        assert shown > 0
        await here.settle()
        assert (await here.live.job(job)).job.running_s == shown
        await here.live.hold(ME, job)
        here.memory.release(job)
        await here.reached(job, State.HELD)
        assert (await here.live.job(job)).job.running_s >= shown

    play_on(world, story, tmp_path)


# -- The nodes that a controller starts with, after one whose jobs hold devices --------------------


class Kept:
    """A store with the jobs of another one, and settings of its own."""

    def __init__(self, store: Store, **settings: str) -> None:
        self._store, self._settings = store, settings

    def setting(self, name: str) -> str | None:
        return self._settings.get(name)

    def active(self) -> list[JobRow]:
        return list(self._store.active())


@playing()
async def test_a_cluster_is_known_by_nodes_that_return_though_those_of_the_last_moment_are_missing(
    here: Bench,
) -> None:
    """1. A cluster of two nodes loses one. 2. The controller dies, and then the agent of the other.
    3. The next controller begins with the one that has returned: it is the same cluster.
    """
    await here.runs()
    (held,) = here.memory.nodes()
    other = replace(held, name="other")
    settings = {NODES: text_of([held]), FIRST_NODES: text_of([held, other])}
    store = cast("Store", Kept(here.live.context.store, **settings))  # all that is asked of it
    assert nodes_at_start(store, [other]) == (other, held)
    assert nodes_at_start(store, []) == (held,), "no agent has come yet"
    stranger = Node("stranger", held.device_count, held.device_type)
    with pytest.raises(TreadleError, match="which is now not there; start with the same"):
        nodes_at_start(store, [stranger])
    assert nodes_at_start(store, [stranger], moved=True) == (stranger, held)
    assert holding(store) == 1


# -- Nodes whose agents do not answer: what people are told ----------------------------------------


WHY = "the agent of node b does not answer"

CLOSED = DeviceClosed(Device("b", 0), WHY, "silent", (Device("b", 1),))


def world() -> MemoryWorld:
    return MemoryWorld.of(Node("a", 1, "none"), Node("b", 2, "none"))


def test_a_job_waits_for_a_node_that_does_not_answer(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        here.live.context.inbox.tell(CLOSED)
        await here.settle()
        status = here.live.status()
        assert (status.free, status.problem) == (1, f"1 node is given no new jobs: {WHY}")
        job = await here.submit("true", devices="3")
        await here.settle()
        why = await here.live.why(job)
        assert (why.code, why.numbers["asked"], why.numbers["open"]) == ("closed", 3, 1)
        assert why.numbers["because"] == WHY
        here.live.context.inbox.tell(DeviceOpened(CLOSED.device, CLOSED.also))
        await here.reached(job, State.SUCCEEDED)
        assert here.live.status().problem == ""
        said = [each.text for each in (await here.live.events(limit=1000)).events]
        assert [text for text in said if "device" in text and "node b" in text] == [
            f"2 devices of node b are closed: {WHY}",
            "2 devices of node b are open again",
        ]
        closed = (await here.live.spells()).closed
        assert [(each.device, each.to_at is not None) for each in closed] == [
            ("b:0", True),
            ("b:1", True),
        ]

    play_on(world(), story, tmp_path)
