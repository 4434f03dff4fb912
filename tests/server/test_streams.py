"""Streams: nothing lost, nothing twice, and an end when there is one."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest

from tests.server.memory import MemoryService
from tests.server.running import Running, running
from tests.telling import within
from tests.waiting import until
from treadle.client import Client
from treadle.server.run import Doors, serving
from treadle.server.settings import ServerSettings
from treadle.server.stream import CHECK_S
from treadle.testing.clocks import ManualClock
from treadle.wire.jobs import JobDetail, JobRequest, LogPiece
from treadle.wire.machine import EventView, Role
from treadle.wire.problems import NotFoundError

QUICK = ServerSettings(keep_alive_s=0.05, streams_per_user_max=3, streams_max=4, send_s_max=0.3)
REQUEST = JobRequest(command=("true",))


@pytest.fixture
def server() -> Iterator[Running]:
    with running(settings=QUICK) as found:
        yield found


def started(server: Running, client: Client) -> tuple[str, Path]:
    identity = client.submit(REQUEST).id
    return identity, server.within(lambda: server.service.run(identity))


def in_background(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_a_log_is_followed_to_its_end(server: Running):
    with Client(server.unix) as client:
        identity, path = started(server, client)
        path.write_text("one\n")
        texts = []
        for piece in client.follow_log(identity):
            texts.append(piece.text)
            if len(texts) == 1:
                with path.open("a") as file:
                    file.write("two\n")
                server.within(lambda: server.service.end(identity))
        assert "".join(texts) == "one\ntwo\n"


def test_a_follower_of_the_newest_attempt_goes_on_into_the_next(server: Running):
    with Client(server.unix) as client:
        identity, path = started(server, client)
        path.write_text("first")
        texts = []
        for piece in client.follow_log(identity):
            texts.append((piece.attempt, piece.text))
            if piece.attempt == 1:
                server.within(lambda: server.service.end_attempt(identity))
                second = server.within(lambda: server.service.run(identity, attempt=2))
                second.write_text("second")
                server.within(lambda: server.service.end(identity))
        assert texts == [(1, "first"), (2, "second")]


def test_a_follower_of_one_attempt_ends_with_it(server: Running):
    with Client(server.unix) as client:
        identity, path = started(server, client)
        path.write_text("first")
        server.within(lambda: server.service.end_attempt(identity))
        assert [piece.text for piece in client.follow_log(identity, attempt=1)] == ["first"]


def test_the_log_of_a_job_that_never_ran_ends_with_the_job(server: Running):
    with Client(server.unix) as client:
        identity = client.submit(REQUEST).id
        client.cancel(identity)
        assert list(client.follow_log(identity)) == []


def test_the_log_of_an_unknown_job_is_refused_before_the_stream_begins(server: Running):
    with Client(server.unix) as client, pytest.raises(NotFoundError):
        next(client.follow_log("nope"))


class Named(MemoryService):
    """Its jobs have names as well, and these may come to stand for other jobs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.called: dict[str, str] = {}

    async def job(self, identity: str) -> JobDetail:
        return await super().job(self.called.get(identity, identity))

    async def log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
    ) -> LogPiece:
        job = self.called.get(identity, identity)
        return await super().log(job, attempt=attempt, rank=rank, offset=offset, limit=limit)


def test_a_log_that_is_followed_by_name_stays_that_of_the_job_it_was(tmp_path: Path):
    """1. A reader follows a name. 2. Another user's job takes the name. 3. The first goes on."""
    service = Named(tmp_path)
    with running(service, settings=QUICK) as server, Client(server.unix) as client:
        mine, theirs = (client.submit(REQUEST).id for _ in range(2))
        paths = [server.within(partial(service.run, job)) for job in (mine, theirs)]
        service.called["train"] = mine
        paths[0].write_text("one\n")
        with raw(server) as http, http.stream("GET", "/api/v1/stream?log=train:0:0:0") as answer:
            pieces = (json.loads(line[6:]) for line in answer.iter_lines() if '"text":"' in line)
            texts = (piece["text"] for piece in pieces if "rank" in piece)
            assert next(texts) == "one\n"
            service.called["train"] = theirs
            paths[1].write_text("a secret of theirs")
            with paths[0].open("a") as file:
                file.write("two\n")
            assert next(texts) == "two\n"


def test_events_come_as_they_happen_and_each_once(server: Running):
    with Client(server.unix) as client:
        first = client.submit(REQUEST).id
        seen: list[EventView] = []
        for event in client.follow_events(after=0):
            seen.append(event)
            if len(seen) < 5:
                client.submit(REQUEST)
            else:
                break
        assert [event.id for event in seen] == [1, 2, 3, 4, 5]
        assert seen[0].job == first


def test_an_event_stream_without_an_id_begins_now(server: Running):
    with Client(server.unix) as client:
        client.submit(REQUEST)
        events = client.follow_events()
        seen: list[EventView] = []
        thread = in_background(lambda: seen.append(next(events)))
        while thread.is_alive():
            client.submit(REQUEST)
            thread.join(0.01)
        assert seen[0].id > 1


def test_a_follower_outlives_a_restart_of_the_server(tmp_path):
    """1. It follows. 2. The server ends. 3. Another takes its place. 4. Nothing is missing."""
    service = MemoryService(tmp_path)
    seen: list[int] = []
    done = threading.Event()
    with running(service, settings=QUICK) as first:
        path = first.bound.socket_path
        with Client(first.unix) as client:
            client.submit(REQUEST)

        def follow() -> None:
            with Client(f"unix:{path}") as follower:
                for event in follower.follow_events(after=0):
                    seen.append(event.id)
                    if event.id == 4:
                        break
            done.set()

        thread = in_background(follow)
        until(lambda: seen)
    with running(service, settings=QUICK, socket_path=path) as second:
        with Client(second.unix) as client:
            for _ in range(3):
                client.submit(REQUEST)
        assert done.wait(10)
    thread.join(10)
    assert seen == [1, 2, 3, 4]


def test_silence_is_filled_with_comments(server: Running):
    with raw(server) as http, http.stream("GET", "/api/v1/stream") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        assert ": ping" in lines


def test_too_many_streams_are_refused_and_ended_ones_do_not_count(server: Running):
    with raw(server) as http:
        streams = [http.stream("GET", "/api/v1/stream") for _ in range(3)]
        for stream in streams:
            assert stream.__enter__().status_code == 200
        refused = http.get("/api/v1/stream")
        assert refused.status_code == 429
        assert refused.json()["detail"] == "user ada has 3 streams open (at most 3)"
        for stream in streams:
            stream.__exit__(None, None, None)
        until(lambda: _begins(http))


def _begins(http: httpx2.Client) -> bool:
    with http.stream("GET", "/api/v1/stream") as answer:
        return answer.status_code == 200


def test_streams_of_all_users_together_are_limited(server: Running):
    tokens = [server.service.token(user, Role.VIEWER) for user in ("bob", "eve")]
    with raw(server) as http:
        opened = []
        statuses = []
        for number in range(5):
            headers = {"Authorization": f"Bearer {tokens[number % 2]}"}
            stream = http.stream("GET", "/api/v1/stream", headers=headers)
            statuses.append(stream.__enter__().status_code)
            opened.append(stream)
        for stream in opened:
            stream.__exit__(None, None, None)
    assert statuses == [200, 200, 200, 200, 429]


def test_a_reader_that_takes_nothing_is_let_go(server: Running):
    """1. A log too long for all buffers. 2. A reader that stops. 3. Its stream is given back."""
    with Client(server.unix) as client, raw(server) as http:
        identity, path = started(server, client)
        path.write_bytes(b"x" * 2**24)
        with http.stream("GET", f"/api/v1/stream?log={identity}:0:0:0"):
            until(lambda: "treadle_http_streams 1.0" in client.metrics())
            until(lambda: "treadle_http_streams 0.0" in client.metrics())


@within(60)
async def test_the_server_closes_quickly_with_streams_open(tmp_path) -> None:
    service = MemoryService(tmp_path)
    loop = asyncio.get_running_loop()
    async with serving(service, Doors(port=0)) as bound:
        token = service.token("ada", Role.ADMIN)
        headers = {"Authorization": f"Bearer {token}"}
        http = httpx2.Client(base_url=bound.url, headers=headers)
        opened = http.stream("GET", "/api/v1/stream")
        assert (await asyncio.to_thread(opened.__enter__)).status_code == 200
        begun = loop.time()
    assert loop.time() - begun < 2.0
    http.close()


def raw(server: Running) -> httpx2.Client:
    transport = httpx2.HTTPTransport(uds=str(server.bound.socket_path))
    return httpx2.Client(transport=transport, base_url="http://treadle", timeout=20)


class Watched(MemoryService):
    """Something happens in the middle of its journal."""

    in_the_middle: Callable[[], object] = staticmethod(lambda: None)

    async def journal(self) -> AsyncIterator[bytes]:
        yield b"{}\n"
        self.in_the_middle()
        yield b'{"secret": 1}\n'


def test_a_stream_ends_with_its_token(tmp_path: Path):
    clock = ManualClock()
    with running(MemoryService(tmp_path), settings=ServerSettings(clock=clock)) as server:
        with Client(server.unix) as client:
            client.submit(REQUEST)
        token = server.service.token("ada", Role.USER)
        headers = {"Authorization": f"Bearer {token}"}
        with raw(server) as http, http.stream("GET", "/api/v1/stream", headers=headers) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "retry: 1000"
            server.within(lambda: clock.advance(CHECK_S))
            server.within(lambda: server.service.forget(token))
            server.within(lambda: clock.advance(2 * CHECK_S))
            assert not any("secret" in line for line in lines)  # It ends.


def test_a_download_that_outlives_its_token_is_not_taken_for_a_whole_one(tmp_path: Path):
    clock, service = ManualClock(), Watched(tmp_path)
    token = service.token("ada", Role.USER)
    headers = {"Authorization": f"Bearer {token}"}

    def revoked() -> None:
        service.forget(token)
        clock.advance(CHECK_S)

    with running(service, settings=ServerSettings(clock=clock)) as server, raw(server) as http:
        assert b"secret" in http.get("/api/v1/journal", headers=headers).content
        service.in_the_middle = revoked
        with pytest.raises(httpx2.RemoteProtocolError):
            http.get("/api/v1/journal", headers=headers)
