"""The page's stream over real HTTP: frames, resuming, logs, and who may read them."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.memory import MemoryService
from tests.server.running import Running, running
from tests.telling import within
from treadle.client import Client
from treadle.core.machine import NodeView
from treadle.server.answers import close_source
from treadle.server.hub import FRAMES_BYTES_MAX, FRAMES_MAX, Frame, Hub
from treadle.testing.clocks import ManualClock
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import EventPage, EventView, Role
from treadle.wire.problems import UnavailableError

STREAM = "/api/v1/stream"


@pytest.fixture
def server() -> Iterator[Running]:
    with running() as found:
        yield found


def reader(server: Running, user: str = "olga", role: Role = Role.USER) -> httpx2.Client:
    token = server.service.token(user, role)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=server.url, headers=headers, timeout=20, trust_env=False)


def frames(answer: httpx2.Response) -> Iterator[tuple[str, int, Any]]:
    """Kind, id and data of each frame."""
    kind, number, data = "", 0, ""
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            number = int(value)
        elif name == "data":
            data += value
        elif not line and data:
            yield kind, number, json.loads(data)
            kind, data = "", ""


def submit(server: Running, name: str = "the one") -> str:
    with Client(server.address, server.service.token("olga", Role.USER)) as client:
        return client.submit(JobRequest(command=("true",), name=name)).id


def test_a_reader_hears_of_a_job_its_changes_and_its_end(server: Running):
    with reader(server) as http, http.stream("GET", STREAM) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        heard = frames(answer)
        assert next(heard)[0] == "reset"
        identity = submit(server)
        kind, number, tick = next(heard)
        while not tick["jobs"]:
            kind, number, tick = next(heard)
        assert (kind, tick["id"]) == ("tick", number)
        assert [job["id"] for job in tick["jobs"]] == [identity]
        assert [event["kind"] for event in tick["events"]] == ["JobSubmitted"]
        assert tick["status"]["devices"] == 1
        server.within(lambda: server.service.end(identity))
        _, _, tick = next(heard)
        assert tick["gone"] == [identity]
        assert [job["state"] for job in tick["jobs"]] == ["SUCCEEDED"]


def test_a_reader_that_comes_back_misses_nothing_and_hears_nothing_twice(server: Running):
    with reader(server) as http, http.stream("GET", STREAM) as other:
        kept = frames(other)
        with http.stream("GET", STREAM) as answer:
            _, last, _ = next(frames(answer))
        identity = submit(server)
        next(frame for frame in kept if frame[0] == "tick" and frame[2]["jobs"])
        with http.stream("GET", STREAM, params={"after": last}) as answer:
            kind, number, tick = next(f for f in frames(answer) if f[2].get("jobs"))
            assert (kind, [job["id"] for job in tick["jobs"]]) == ("tick", [identity])
        with http.stream("GET", STREAM, headers={"Last-Event-ID": str(number)}) as answer:
            submit(server, "another")
            heard = frames(answer)
            kind, _, tick = next(heard)
            assert kind == "tick"
            assert [job["id"] for job in tick["jobs"]] == ["2"]


@pytest.mark.parametrize("after", [0, 7, 2**52])
def test_an_id_that_is_not_kept_begins_anew(server: Running, after: int):
    with reader(server) as http, http.stream("GET", STREAM, params={"after": after}) as answer:
        kind, number, _ = next(frames(answer))
        assert kind == "reset"
        assert number != after


def test_a_log_is_followed_beside_the_rest_by_its_owner_alone(server: Running):
    identity = submit(server)
    path = server.within(lambda: server.service.run(identity))
    path.write_text("one\n")
    asked = {"log": f"{identity}:0:0:0"}
    with reader(server) as http, http.stream("GET", STREAM, params=asked) as answer:
        heard = (frame for frame in frames(answer) if frame[0] == "log")
        _, _, piece = next(heard)
        assert piece["text"] == "one\n"
        with path.open("a") as file:
            file.write("two\n")
        _, _, piece = next(heard)
        assert (piece["text"], piece["offset"], piece["next"]) == ("two\n", 4, 8)
    for user, role in (("vera", Role.VIEWER), ("otto", Role.USER)):
        with reader(server, user, role) as http:
            assert http.get(STREAM, params=asked).status_code == 403
    with reader(server) as http:
        assert http.get(STREAM, params={"log": "nope:0:0:0"}).status_code == 404
        for wrong in ("1", "1:0:0", "1:0:0:x", "../x:0:0:0", "1:0:0:0:0"):
            assert http.get(STREAM, params={"log": wrong}).status_code == 422


@within(60)
async def test_a_reader_that_falls_out_of_the_ring_is_dropped_and_begins_anew(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    hub = Hub(MemoryService(tmp_path), clock)
    slow = hub.frames(None)
    place = (await anext(slow)).id
    for number in range(1, FRAMES_MAX + 2):
        hub.keep(Frame(place + number, b"x"))
    assert len(hub._ring) == FRAMES_MAX
    with pytest.raises(StopAsyncIteration):
        await anext(slow)
    back = hub.frames(place)
    assert b"event: reset" in (await anext(back)).text
    kept = hub.frames(hub.newest - 2)
    assert [(await anext(kept)).id for _ in range(2)] == [hub.newest - 1, hub.newest]
    for each in (back, kept):
        await close_source(each)
    await hub.close()


@within(60)
async def test_the_ring_is_bounded_in_bytes_too(tmp_path: Path) -> None:
    hub = Hub(MemoryService(tmp_path), ManualClock())
    long = b"x" * (FRAMES_BYTES_MAX // 3)
    for number in range(9):
        hub.keep(Frame(hub.newest + 1, long))
        assert len(hub._ring) == min(number + 1, 3)
    hub.keep(Frame(hub.newest + 1, b"y" * (FRAMES_BYTES_MAX + 1)))
    assert [frame.text[:1] for frame in hub._ring] == [b"y"]
    hub.keep(Frame(hub.newest + 1, b"z"))
    assert [frame.text[:1] for frame in hub._ring] == [b"z"]


class Shrinking(MemoryService):
    """Its node leaves when it is told to."""

    gone = False

    def nodes(self) -> tuple[NodeView, ...]:
        return () if self.gone else super().nodes()


class Slow(MemoryService):
    """Its store takes its time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.answers = asyncio.Event()

    async def events_last(self, *, job: str = "", limit: int = 100) -> EventPage:
        await self.answers.wait()
        return await super().events_last(job=job, limit=limit)


class Deaf(MemoryService):
    """What happens cannot be read."""

    async def follow(self, *, after: int, job: str = "") -> AsyncIterator[EventView]:
        if after < 0:
            yield EventView(id=0, at=0.0, kind="", job=job, text="")
        raise UnavailableError("nothing is heard")


async def next_tick(clock: ManualClock, source: AsyncIterator[Frame]) -> dict[str, Any]:
    """The next frame that is a tick; a second passes for each look."""
    taking = asyncio.ensure_future(anext(source))
    while True:
        while not taking.done():
            await asyncio.sleep(0)
            clock.advance(clock.now() + 0.1)
        text = taking.result().text.decode()
        if text.startswith("event: tick"):
            found: dict[str, Any] = json.loads(text.partition("data: ")[2].partition("\n")[0])
            return found
        taking = asyncio.ensure_future(anext(source))


@within(180)
async def test_a_node_that_left_is_named_once_also_before_the_first_look(tmp_path: Path) -> None:
    clock, service = ManualClock(), Shrinking(tmp_path)
    hub = Hub(service, clock)
    source = hub.frames(None)
    assert b"event: reset" in (await anext(source)).text
    service.gone = True
    first = await next_tick(clock, source)
    assert (first["nodes"], first["lost"]) == ([], ["here"])
    service.gone = False
    second = await next_tick(clock, source)
    assert ([node["name"] for node in second["nodes"]], second["lost"]) == (["here"], [])
    service.gone = True
    third = await next_tick(clock, source)
    assert (third["nodes"], third["lost"]) == ([], ["here"])
    await close_source(source)
    await hub.close()


@within(180)
async def test_a_job_that_ends_after_the_lists_were_read_and_before_the_first_look_is_gone(
    tmp_path: Path,
) -> None:
    """1. The hub begins, and its store is slow. 2. The reader is told to read the lists, which
    have the job. 3. The job ends. Were the reader told before the hub hears events, no frame would
    ever say so."""
    clock, service = ManualClock(), Slow(tmp_path)
    job = await service.submit(service.people[os.getuid()], JobRequest(command=("true",)))
    hub = Hub(service, clock)
    source = hub.frames(None)
    told = asyncio.ensure_future(anext(source))
    for _ in range(50):
        await asyncio.sleep(0)
    if not told.done():
        service.answers.set()
    assert b"event: reset" in (await told).text
    assert service.active_ids() == (job.id,)
    service.end(job.id)
    service.answers.set()
    tick = await next_tick(clock, source)
    assert tick["gone"] == [job.id]
    await close_source(source)
    await hub.close()


@within(180)
async def test_readers_begin_anew_when_events_are_heard_no_more(tmp_path: Path) -> None:
    """Else the page would say that it is live, and would show no event for ever."""
    clock = ManualClock()
    hub = Hub(Deaf(tmp_path), clock)
    source = hub.frames(None)
    with pytest.raises(StopAsyncIteration):
        await next_tick(clock, source)
    await hub.close()
