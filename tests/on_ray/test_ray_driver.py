"""The driver over a cluster in memory, for what a real one does too rarely."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from ray.exceptions import ActorDiedError, RayError

from tests.unit.engines.test_ray_lease import BOB, Values
from treadle.core.cluster import Node
from treadle.core.errors import EngineError
from treadle.engines.agent import wire
from treadle.engines.agent.agent_host import Attending, Post
from treadle.engines.clusters.ray import driver, frames, lease
from treadle.engines.clusters.ray.cluster import RayNode
from treadle.engines.clusters.ray.driver import Driver
from treadle.engines.clusters.ray.driver_process import reason_in
from treadle.engines.context import EngineOptions

SETTINGS = frames.Settings(root="/r", holder="h", instance="i", look_every_s=0.001)
WITHIN_S = 20.0


def with_options(**options: Any) -> frames.Settings:
    return msgspec.structs.replace(SETTINGS, options=EngineOptions(**options))


def node(name: str, number: int = 1) -> RayNode:
    return RayNode(id=f"{name}-{number}", name=name, address="a", rack="", gpus=0, cpus=1)


class Cluster:
    """What Ray says of nodes, and their agents (driver.Nodes)."""

    def __init__(self, *nodes: RayNode) -> None:
        self.listed = list(nodes)
        self.looks = 0
        self.fails: Exception | None = None  # in place of the next list of nodes
        self.death: Callable[[], str] = lambda: "it is dead"
        self.others: Callable[[], str] = str
        self.told: set[str] = set()
        self.reserved: list[str] = []
        self.calls: list[tuple[object, ...]] = []  # what agents were asked
        self.answers: list[asyncio.Future[bytes]] = []  # that agents owe
        self.posts: dict[str, Post] = {}  # what agents were told, by name
        self.pings: list[asyncio.Future[None]] = []
        self.answers_pings = True
        self.restarted: list[str] = []  # actors of these nodes
        self.restart_fails: Exception | None = None
        self.loop = asyncio.get_running_loop()

    def nodes(self) -> list[RayNode]:
        self.looks += 1
        if (error := self.fails) is not None:
            self.fails = None
            raise error
        return list(self.listed)

    def attended(self) -> set[str]:
        return self.told

    def death_of(self, node_id: str) -> str:
        return self.death()

    def reserve(self, node: RayNode, devices: int | None) -> str:
        self.reserved.append(node.id)
        return node.id

    def is_reserved(self, group: str, *, within_s: float) -> bool:
        return True

    def agent_of(self, node: RayNode) -> Any:
        async def attend(document: bytes) -> bytes:
            self.posts[node.name] = msgspec.json.decode(document, type=Post)
            found = Node(node.name, 1, "cpu", 1, 1.0)
            return msgspec.json.encode(Attending(agent=node.id, node=found, machine="m"))

        def call(*given: object) -> "asyncio.Future[bytes]":
            self.calls.append(given)
            self.answers.append(self.loop.create_future())
            return self.answers[-1]

        def ping() -> "asyncio.Future[None]":
            self.pings.append(self.loop.create_future())
            if self.answers_pings:
                self.pings[-1].set_result(None)
            return self.pings[-1]

        return SimpleNamespace(
            attend=SimpleNamespace(remote=attend),
            call=SimpleNamespace(remote=call),
            ping=SimpleNamespace(remote=ping),
        )

    replace_agent = agent_of

    def restart_actor(self, node: RayNode) -> None:
        self.restarted.append(node.id)
        if self.restart_fails is not None:
            raise self.restart_fails

    def others_on(self, node: RayNode, post: bytes) -> str:
        return self.others()

    def forget(self, node_id: str) -> None:
        self.told.discard(node_id)

    def forget_the_dead(self) -> None:
        pass


class Controller:
    """The other side of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, message: frames.Settings | frames.Ask) -> None:
        self.writer.write(frames.packed(message))

    async def next(self, kind: type[Any]) -> Any:
        async with asyncio.timeout(WITHIN_S):
            while not isinstance(found := await frames.read(self.reader, frames.FROM_DRIVER), kind):
                pass
            return found


Story = Callable[[Cluster, Controller], Coroutine[Any, Any, None]]


def tell(
    story: Story,
    *nodes: RayNode,
    values: Values | None = None,
    settings: frames.Settings = SETTINGS,
    ping_every_s: float = driver.PING_EVERY_S,
) -> None:
    async def whole() -> None:
        cluster = Cluster(*nodes)
        ours, theirs = socket.socketpair()
        streams = await asyncio.open_connection(sock=theirs)
        served = Driver(*streams, cluster, values or Values(), ping_every_s=ping_every_s)
        serving = asyncio.ensure_future(served.serve())
        controller = Controller(*await asyncio.open_connection(sock=ours))
        controller.send(settings)
        try:
            await story(cluster, controller)
        finally:
            controller.writer.close()
            await asyncio.wait_for(serving, WITHIN_S)

    asyncio.run(whole())


async def looked_again(cluster: Cluster) -> None:
    """The driver has looked at the nodes as they are now, and done what follows."""
    wanted = cluster.looks + 3
    await until(lambda: cluster.looks >= wanted)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not true():
            await asyncio.sleep(0.001)


def test_a_loss_is_told_though_ray_does_not_say_why() -> None:
    async def story(cluster: Cluster, controller: Controller) -> None:
        def fails() -> str:
            raise RayError("timed out")

        await controller.next(frames.Ready)
        cluster.death = fails
        cluster.listed.clear()
        left = await controller.next(frames.NodeLeft)
        assert left == frames.NodeLeft(
            "b", "the node is gone, and Ray does not say why (timed out)"
        )

    tell(story, node("b"))


def test_a_node_that_is_gone_is_not_given_an_agent_for_a_call_that_fails_late() -> None:
    async def story(cluster: Cluster, controller: Controller) -> None:
        await controller.next(frames.Ready)
        controller.send(frames.Ask(1, "b", "b-1", "facts", b""))
        await looked_again(cluster)
        cluster.listed.clear()
        await controller.next(frames.NodeLeft)
        cluster.answers[0].set_exception(ActorDiedError())
        assert (await controller.next(frames.NoAnswer)).number == 1
        await looked_again(cluster)
        assert cluster.reserved == ["b-1"]

    tell(story, node("b"))


def test_the_driver_goes_on_looking_after_an_error_that_nothing_foresees() -> None:
    async def story(cluster: Cluster, controller: Controller) -> None:
        await controller.next(frames.Ready)
        cluster.fails = ValueError("a row without a name")
        await looked_again(cluster)
        cluster.listed.append(node("c"))
        assert (await controller.next(frames.NodeIs)).node.name == "c"

    tell(story, node("b"))


def test_agents_are_asked_at_once_whether_they_have_jobs_of_others() -> None:
    """Those that say nothing take ten seconds each."""
    nodes = [node(f"n{number}") for number in range(6)]
    values = Values()
    lease.give_back(values, lease.take(values, BOB, pause=lambda _: None))

    async def story(cluster: Cluster, controller: Controller) -> None:
        together = threading.Barrier(len(nodes), timeout=WITHIN_S)

        def others() -> str:
            together.wait()
            return ""

        cluster.others = others
        await controller.next(frames.Ready)

    tell(story, *nodes, values=values)


def test_of_two_nodes_with_one_name_the_one_that_has_an_agent_is_used() -> None:
    """Its jobs run on, and the one before it in Ray's list has none."""

    async def story(cluster: Cluster, controller: Controller) -> None:
        cluster.told.add("b-2")
        assert (await controller.next(frames.NodeIs)).agent == "b-2"

    tell(story, node("b", 1), node("b", 2))


def test_no_node_has_more_slots_than_its_label_or_its_cpus_allow() -> None:
    async def story(cluster: Cluster, controller: Controller) -> None:
        await controller.next(frames.Ready)
        found = {name: post.options.devices for name, post in cluster.posts.items()}
        assert found == {"labelled": 2, "small": 1, "large": 4, "gpus": 4}

    nodes = (
        replace(node("labelled"), cpus=8, slots=2),
        node("small"),
        replace(node("large"), cpus=8),
        replace(node("gpus"), cpus=8, gpus=2),
    )
    tell(story, *nodes, settings=with_options(devices=4))


def test_gpus_are_chosen_on_nodes_that_offer_gpus() -> None:
    """Slots have numbers too, and are no GPUs."""

    async def story(cluster: Cluster, controller: Controller) -> None:
        await controller.next(frames.Ready)
        found = {
            name: (post.options.gpus, post.options.avoid) for name, post in cluster.posts.items()
        }
        assert found == {"cpus": ((), ()), "slots": ((), ()), "gpus": (("0",), ("1",))}

    nodes = (
        replace(node("cpus"), cpus=4),
        replace(node("slots"), gpus=2, slots=1),
        replace(node("gpus"), gpus=2),
    )
    tell(story, *nodes, settings=with_options(gpus=("0",), avoid=("1",)))


# -- another cluster ------------------------------------------------------------------------------


def test_a_cluster_that_does_not_have_the_jobs_is_refused_and_left_as_it_is() -> None:
    values = Values()

    async def story(cluster: Cluster, controller: Controller) -> None:
        assert await controller.next(frames.Refused) == frames.Refused("jobs run elsewhere")
        assert (values.rows, cluster.reserved) == ({}, [])

    wanted = msgspec.structs.replace(SETTINGS, cluster="m1", otherwise="jobs run elsewhere")
    tell(story, node("b"), values=values, settings=wanted)


def test_the_cluster_that_has_the_jobs_is_known_by_its_mark() -> None:
    values = Values()
    marks: list[str] = []

    async def story(_: Cluster, controller: Controller) -> None:
        marks.append((await controller.next(frames.Ready)).cluster)

    tell(story, node("b"), values=values)
    wanted = msgspec.structs.replace(SETTINGS, cluster=marks[0], otherwise="jobs run elsewhere")
    tell(story, node("b"), values=values, settings=wanted)
    assert marks[0] == marks[1] != ""


def test_a_cluster_that_was_started_again_under_its_controller_is_not_refused() -> None:
    async def story(_: Cluster, controller: Controller) -> None:
        assert (await controller.next(frames.Ready)).epoch == 7

    wanted = msgspec.structs.replace(SETTINGS, cluster="m1", otherwise="elsewhere", resumes=7)
    tell(story, node("b"), settings=wanted)


# -- actors that hang -----------------------------------------------------------------------------


def test_an_actor_that_answers_no_ping_is_started_again_and_attended_when_it_is_back() -> None:
    async def story(cluster: Cluster, controller: Controller) -> None:
        await controller.next(frames.Ready)
        await until(lambda: len(cluster.pings) > 3)
        assert cluster.restarted == []
        cluster.answers_pings = False
        await until(lambda: bool(cluster.restarted))
        assert cluster.restarted[0] == "b-1"
        controller.send(frames.Ask(1, "b", "b-1", "facts", b""))
        await until(lambda: bool(cluster.answers))
        cluster.answers[0].set_exception(ActorDiedError())  # as Ray says it then
        assert (await controller.next(frames.NoAnswer)).number == 1
        await until(lambda: len(cluster.reserved) == 2)

    tell(story, node("b"), ping_every_s=0.01)


def test_errors_of_ray_do_not_end_the_watch_on_actors() -> None:
    """An actor may be gone between two questions about it, which is no RayError."""

    async def story(cluster: Cluster, controller: Controller) -> None:
        cluster.answers_pings = False
        cluster.restart_fails = ValueError("there is no such actor")
        await controller.next(frames.Ready)
        await until(lambda: len(cluster.restarted) > 1)

    tell(story, node("b"), ping_every_s=0.01)


def test_no_argument_of_a_call_is_kept_in_rays_object_store() -> None:
    """Ray keeps those of more than 100 KiB there, and may write them to a disk."""
    document = bytes(range(256)) * 2000

    async def story(cluster: Cluster, controller: Controller) -> None:
        await controller.next(frames.Ready)
        controller.send(frames.Ask(1, "b", "b-1", "orders", document))
        await until(lambda: bool(cluster.calls))
        _, _, *pieces = cluster.calls[0]
        sent = [piece for piece in pieces if isinstance(piece, bytes)]
        assert b"".join(sent) == document
        assert max(map(len, sent)) <= 100 << 10

    tell(story, node("b"))


def test_an_error_of_ray_that_nothing_foresees_is_no_answer() -> None:
    async def story(cluster: Cluster, controller: Controller) -> None:
        await controller.next(frames.Ready)
        controller.send(frames.Ask(1, "b", "b-1", "facts", b"{}"))
        await until(lambda: bool(cluster.answers))
        cluster.answers[0].set_exception(ValueError("no such actor"))
        assert (await controller.next(frames.NoAnswer)).number == 1

    tell(story, node("b"))


def test_a_call_that_is_not_answered_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr(driver, "ANSWER_WITHIN_S", 0.01)

    async def story(cluster: Cluster, controller: Controller) -> None:
        await controller.next(frames.Ready)
        controller.send(frames.Ask(1, "b", "b-1", "facts", b"{}"))
        assert (await controller.next(frames.NoAnswer)).number == 1

    tell(story, node("b"))


def test_an_answer_that_is_too_long_is_refused_and_the_connection_stays(monkeypatch) -> None:
    monkeypatch.setattr(frames, "BYTES_MAX", 4096)

    async def story(cluster: Cluster, controller: Controller) -> None:
        await controller.next(frames.Ready)
        for number, answer in ((1, b"+" + b"x" * 5000), (2, b"+" + wire.answer([]))):
            controller.send(frames.Ask(number, "b", "b-1", "facts", b"{}"))
            await until(lambda: any(not answer.done() for answer in cluster.answers))
            cluster.answers[-1].set_result(answer)
            found = await controller.next(frames.Answer)
            assert found.number == number
            if number == 1:
                with pytest.raises(EngineError, match="cannot be sent through Ray's driver"):
                    wire.opened(found.document, list)

    tell(story, node("b"))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("Check failed: InvalidAuthToken: Invalid or missing token", "refused the token; set RAY_"),
        ("Failed to connect to socket at address: /x/raylet", "ray start --address h:1"),
        ("Failed to connect to GCS at address h:1 within 5 seconds.", "is no Ray cluster"),
        ("Segmentation fault", ""),
    ],
)
def test_what_ray_writes_before_it_ends_a_driver(line: str, sentence: str) -> None:
    found = reason_in(["[a.cc:1] other", line], "h:1")
    assert sentence in found
    assert bool(found) == bool(sentence)
