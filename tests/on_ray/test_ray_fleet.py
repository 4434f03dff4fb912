"""The controller's side of a driver, over a cluster in memory."""

import asyncio
import gc
import socket
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.on_ray.test_ray_driver import SETTINGS, WITHIN_S, Cluster, node, until
from tests.unit.engines.test_ray_lease import BOB, Values
from treadle.control.loop.clock import MonotonicClock
from treadle.core.errors import InvalidInputError
from treadle.engines.agent.agent_errors import ClusterAwayError
from treadle.engines.clusters.ray import frames, lease
from treadle.engines.clusters.ray.driver import Driver
from treadle.engines.clusters.ray.fleet import RayFleet
from treadle.engines.clusters.ray.ray_engine import ray_fleet
from treadle.engines.fleet.port import Change, Joined
from treadle.engines.registry import EngineContext
from treadle.testing.engine_bench import Recorder


def test_a_controller_is_warned_of_nodes_that_have_one_name() -> None:
    """1. Of two nodes one is not used. 2. It is given another name. 3. Both are used."""

    async def story() -> None:
        cluster = Cluster(node("b", 1), replace(node("b", 2), address="10.0.0.7"))
        ours, theirs = socket.socketpair()
        driver = Driver(*await asyncio.open_connection(sock=theirs), cluster, Values())
        serving = asyncio.ensure_future(driver.serve())
        fleet = await asyncio.to_thread(RayFleet, lambda: ours, SETTINGS)
        changes: list[Change] = []
        await fleet.begin(changes.append)
        assert list(fleet.unused()) == ["b at 10.0.0.7"]
        assert "another node of the Ray cluster is called b" in fleet.unused()["b at 10.0.0.7"]
        cluster.listed[1] = node("c")
        await until(lambda: not any(fleet.unused().values()) and bool(changes))
        assert [each.node.name for each in changes if isinstance(each, Joined)] == ["c"]
        await fleet.close()
        await asyncio.wait_for(serving, WITHIN_S)

    asyncio.run(story())


def test_agents_are_not_called_silent_while_the_driver_is_and_that_one_is_killed() -> None:
    """1. A driver says nothing: what is asked fails as the cluster's fault. 2. It is killed. 3. The
    next one resumes the epoch.
    """

    async def story() -> None:
        values, killed, links = Values(), list[int](), list[socket.socket]()

        def connect() -> socket.socket:
            ours, theirs = socket.socketpair()
            links.append(theirs)
            return ours

        async def serve(link: socket.socket) -> Driver:
            driver = Driver(*await asyncio.open_connection(sock=link), Cluster(node("b")), values)
            serving.append(asyncio.ensure_future(driver.serve()))
            return driver

        def kill() -> None:
            killed.append(len(links))
            first._held = None  # It gives nothing back.
            serving[0].cancel()

        serving = list["asyncio.Future[None]"]()
        making = asyncio.ensure_future(
            asyncio.to_thread(RayFleet, connect, SETTINGS, kill=kill, beat_s=0.02)
        )
        await until(lambda: bool(links))
        first = await serve(links[0])
        fleet = await making
        await fleet.begin(lambda _: None)
        (link,) = fleet._known.values()
        asked = asyncio.ensure_future(link.call("facts", b""))
        with pytest.raises(ClusterAwayError, match="the process that speaks to Ray says nothing"):
            await asyncio.wait_for(asked, WITHIN_S)
        with pytest.raises(ClusterAwayError, match="node b cannot be asked"):
            await link.call("facts", b"")
        await until(lambda: len(links) == 2)
        assert killed == [1]
        await serve(links[1])
        await until(lambda: fleet._writer is not None)
        assert fleet._held == fleet.epoch
        await fleet.close()
        await asyncio.gather(*serving, return_exceptions=True)

    asyncio.run(story())


def test_another_epoch_is_taken_above_one_that_only_nodes_remember() -> None:
    async def story() -> None:
        values, kept, serving = Values(), list[int](), list["asyncio.Future[None]"]()
        loop = asyncio.get_running_loop()

        async def serve(link: socket.socket) -> None:
            driver = Driver(*await asyncio.open_connection(sock=link), Cluster(node("b")), values)
            serving.append(asyncio.ensure_future(driver.serve()))

        def connect() -> socket.socket:
            ours, theirs = socket.socketpair()
            asyncio.run_coroutine_threadsafe(serve(theirs), loop).result(WITHIN_S)
            return ours

        def keep(ready: frames.Ready) -> None:
            kept.append(ready.epoch)

        fleet = await asyncio.to_thread(RayFleet, connect, SETTINGS, keep=keep)
        assert await fleet.begin(lambda _: None) == 1
        assert await fleet.above(33) == 34
        assert fleet._writer is not None
        assert kept == [1, 34], "the next controller has a higher one"
        await lease_is_anothers(fleet, values)
        await fleet.close()
        await asyncio.gather(*serving)

    async def lease_is_anothers(fleet: RayFleet, values: Values) -> None:
        """No higher one is taken from a controller that lives."""
        taken = lease.take(values, BOB, pause=lambda _: None)

        def beat(number: int = 0) -> None:
            lease.renew(values, taken, number)
            asyncio.get_running_loop().call_later(0.05, beat, number + 1)

        beat()
        with pytest.raises(InvalidInputError, match="another Treadle manages this Ray cluster"):
            await fleet.above(50)

    asyncio.run(story())


def test_two_state_folders_of_one_path_on_hosts_of_one_name_are_two(tmp_path: Path) -> None:
    """As on machines that were cloned: the second would take the lease from the first."""

    def instance(identity: str) -> str:
        ours, theirs = socket.socketpair()
        theirs.sendall(frames.packed(frames.Refused("no")))
        controls, clock = Recorder({}), MonotonicClock()
        context = EngineContext(controls=controls, clock=clock, root=tmp_path, identity=identity)
        with theirs:
            with pytest.raises(InvalidInputError, match="no"):
                ray_fleet(context, lambda: ours)
            asked = msgspec.msgpack.decode(theirs.recv(1 << 16)[4:], type=frames.Settings)
        return asked.instance

    assert instance("1") != instance("2")


def test_a_question_that_is_too_long_is_not_sent_and_others_are(monkeypatch) -> None:
    """The driver would end, and so would the next one, for one job of one user."""
    monkeypatch.setattr(frames, "BYTES_MAX", 4096)

    async def whole() -> None:
        cluster = Cluster(node("b"))
        ours, theirs = socket.socketpair()
        driver = Driver(*await asyncio.open_connection(sock=theirs), cluster, Values())
        serving = asyncio.ensure_future(driver.serve())
        fleet = await asyncio.to_thread(RayFleet, lambda: ours, SETTINGS)
        await fleet.begin(lambda _: None)
        with pytest.raises(frames.TooLongError):
            await fleet.ask("b", "b-1", "orders", b"x" * 5000)
        asked = asyncio.ensure_future(fleet.ask("b", "b-1", "facts", b"{}"))
        await until(lambda: len(cluster.answers) == 1)
        cluster.answers[0].set_result(b"+[]")
        assert await asked == b"[]"
        await fleet.close()
        await asyncio.wait_for(serving, WITHIN_S)

    asyncio.run(whole())


def test_a_question_that_ends_with_its_connection_leaves_no_error_behind(
    caplog, monkeypatch
) -> None:
    async def whole() -> None:
        ours, theirs = socket.socketpair()
        driver = Driver(*await asyncio.open_connection(sock=theirs), Cluster(node("b")), Values())
        serving = asyncio.ensure_future(driver.serve())
        fleet = await asyncio.to_thread(RayFleet, lambda: ours, SETTINGS)
        await fleet.begin(lambda _: None)

        async def broken() -> None:
            fleet._fail_all("the connection to Ray ended")
            raise ConnectionResetError

        monkeypatch.setattr(fleet._writer, "drain", broken)
        with pytest.raises(ClusterAwayError):
            await fleet.ask("b", "b-1", "facts", b"{}")
        await fleet.close()
        await asyncio.wait_for(serving, WITHIN_S)

    asyncio.run(whole())
    gc.collect()
    assert "never retrieved" not in caplog.text
