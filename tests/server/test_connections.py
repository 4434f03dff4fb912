"""Connections that say nothing: they cost the peer that opens them, and no other user."""

import contextlib
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.control.daemons import Daemon, daemon
from tests.server.running import Running, running
from tests.shared import thorough
from tests.waiting import until
from treadle.client import Client
from treadle.server.limits import DoorLimits, door_limits
from treadle.server.settings import ServerSettings
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import Role, TokenRequest

SILENT = 750


@pytest.fixture(autouse=True)
def _many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4 * SILENT:
        pytest.skip(f"this process may open {hard} files; the test needs {4 * SILENT}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4 * SILENT), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def tcp(served: Daemon) -> tuple[str, int]:
    parts = urlsplit(served.client.status().url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def silent_tcp(place: tuple[str, int], number: int, opened: contextlib.ExitStack) -> None:
    for _ in range(number):
        opened.enter_context(socket.create_connection(place, timeout=30))


def descriptors(served: Daemon) -> int:
    return sum(1 for _ in Path(f"/proc/{served.pid}/fd").iterdir())


def test_a4_silent_connections_on_the_port_leave_the_socket_and_the_jobs_alone() -> None:
    """1. 750 connections without a token on the port. 2. The socket answers, and a job runs.
    3. A token is served on the port. 4. They cost the daemon no more than the port's share."""
    with daemon("--devices", "1", "--port", "0") as served, contextlib.ExitStack() as opened:
        token = served.client.make_token(TokenRequest(name="x", role=Role.USER)).token
        place = tcp(served)
        before = descriptors(served)
        silent_tcp(place, SILENT, opened)
        assert served.client.status().pid == served.pid
        job = served.client.submit(JobRequest(command=("true",), workdir="/")).id
        (view,) = served.ended(job)
        assert view.state is State.SUCCEEDED
        assert descriptors(served) < before + 400
        with Client(f"http://{place[0]}:{place[1]}", token) as client:
            assert client.status().pid == served.pid


@thorough
def test_a4_connections_that_come_and_go_take_no_memory_for_good() -> None:
    """The garbage collector must run: every connection makes cycles."""
    with daemon("--devices", "1") as served:

        def come_and_go(number: int) -> None:
            for _ in range(number):
                with socket.socket(socket.AF_UNIX) as one:
                    one.connect(str(served.socket))
            until(lambda: served.client.status().pid == served.pid)

        come_and_go(2000)
        before = _resident_mb(served)
        come_and_go(10_000)
        assert _resident_mb(served) - before < 20, "it was 47 MB without the collector"


def _resident_mb(served: Daemon) -> float:
    pages = int(Path(f"/proc/{served.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def test_a4_jobs_are_started_with_the_limit_that_the_daemon_was_started_with() -> None:
    """The daemon raises its own limit; a job that uses `select` must not see descriptors above."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        with daemon("--devices", "1") as served:
            text = Path(f"/proc/{served.pid}/limits").read_text()
            assert f"Max open files            {min(hard, 65_536)} " in text
            job = served.client.submit(JobRequest(command=("bash", "-c", "ulimit -n"))).id
            served.ended(job)
            assert served.client.log(job).text == "1024\n"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def door(limits: DoorLimits, *, stranger_s: float = 60.0) -> Iterator[Running]:
    with running(settings=ServerSettings(tcp=limits, unix=limits, stranger_s_max=stranger_s)) as it:
        yield it


def place_of(server: Running) -> tuple[str, int]:
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_a4_a_full_door_closes_the_oldest_silent_connection_first() -> None:
    with door(DoorLimits(4, 4)) as server, contextlib.ExitStack() as opened:
        place = place_of(server)
        made = [opened.enter_context(socket.create_connection(place)) for _ in range(6)]
        until(lambda: is_closed(made[0]) and is_closed(made[1]))
        assert not any(is_closed(each) for each in made[2:])


def test_a4_a_connection_that_is_known_outlives_silent_ones() -> None:
    with door(DoorLimits(4, 4)) as server, contextlib.ExitStack() as opened:
        token = server.service.token("ada", Role.USER)
        place = place_of(server)
        known = opened.enter_context(socket.create_connection(place))
        ask(known, place, token)
        for _ in range(20):
            opened.enter_context(socket.create_connection(place))
        ask(known, place, token)


def test_a4_one_peer_cannot_fill_a_door(tmp_path: Path) -> None:
    """Two addresses of loopback are two peers."""
    with door(DoorLimits(8, 4)) as server, contextlib.ExitStack() as opened:
        place = place_of(server)
        other = opened.enter_context(
            socket.create_connection(place, source_address=("127.0.0.2", 0))
        )
        made = [opened.enter_context(socket.create_connection(place)) for _ in range(12)]
        until(lambda: all(is_closed(each) for each in made[:8]))
        assert not any(is_closed(each) for each in (other, *made[8:]))


def test_a4_a_silent_connection_is_closed_after_a_moment() -> None:
    with door(DoorLimits(4, 4), stranger_s=0.2) as server:
        with socket.create_connection(place_of(server), timeout=30) as connection:
            assert connection.recv(1) == b""
        with socket.create_connection(place_of(server), timeout=30) as connection:
            connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: ")
            assert connection.recv(1) == b""


def test_a4_a_door_whose_connections_are_all_busy_says_so() -> None:
    with door(DoorLimits(2, 2)) as server, contextlib.ExitStack() as opened:
        token = server.service.token("ada", Role.USER)
        place = place_of(server)
        for _ in range(2):  # streams that last
            stream = opened.enter_context(socket.create_connection(place, timeout=30))
            stream.sendall(request(place, token, "/api/v1/stream"))
            assert stream.recv(15) == b"HTTP/1.1 200 OK"
        with socket.create_connection(place, timeout=30) as third:
            assert third.recv(4096).startswith(b"HTTP/1.1 503 Service Unavailable")
        with Client(server.unix) as client:
            assert client.health() == {"status": "ok"}


def half(place: tuple[str, int], token: str) -> bytes:
    """A request whose body does not come; the server says when it waits for it."""
    host, port = place
    return (
        f"POST /api/v1/jobs HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n{"
    ).encode()


def test_a4_a_body_of_those_who_may_not_send_one_is_not_awaited() -> None:
    with door(DoorLimits(4, 4)) as server:
        place = place_of(server)
        token = server.service.token("vera", Role.VIEWER)
        with socket.create_connection(place, timeout=30) as connection:
            connection.sendall(half(place, token))
            assert connection.recv(4096).startswith(b"HTTP/1.1 403 ")


def test_a4_connections_that_wait_for_their_bodies_make_room() -> None:
    with door(DoorLimits(4, 4)) as server, contextlib.ExitStack() as opened:
        place = place_of(server)
        token = server.service.token("otto", Role.USER)
        made = [opened.enter_context(socket.create_connection(place, timeout=30)) for _ in range(4)]
        for each in made:
            each.sendall(half(place, token))
            assert each.recv(4096).startswith(b"HTTP/1.1 100 ")
        other = opened.enter_context(socket.create_connection(place, timeout=30))
        ask(other, place, server.service.token("ada", Role.USER))
        assert sum(map(is_closed, made)) == 1


def test_a4_one_user_has_only_some_of_the_connections_of_a_door() -> None:
    with door(DoorLimits(8, 8, 2)) as server, contextlib.ExitStack() as opened:
        place = place_of(server)
        token = server.service.token("otto", Role.USER)
        made = [opened.enter_context(socket.create_connection(place, timeout=30)) for _ in range(5)]
        for each in made[:3]:
            ask(each, place, token, "/api/v1/health")
        until(lambda: is_closed(made[0]))
        assert [is_closed(each) for each in made[1:3]] == [False, False]
        for each in made[1:3]:
            each.settimeout(30)
            each.sendall(request(place, token, "/api/v1/stream"))
            assert each.recv(15) == b"HTTP/1.1 200 OK"
        made[3].sendall(request(place, token, "/api/v1/status"))
        refused = b""
        while b"as one may have" not in refused and (more := made[3].recv(4096)):
            refused += more
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"user otto has as many connections open as one may have" in refused
        ask(made[4], place, server.service.token("ada", Role.USER))


def test_a4_a_door_without_descriptors_rests_and_goes_on(tmp_path: Path) -> None:
    """1. A process may open no file more. 2. A connection waits, and the loop is not busy with it.
    3. There are descriptors again, and it is served."""
    found = subprocess.run(
        [sys.executable, "-c", SHORT_OF_FILES], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    looks, answer = found.stdout.split()
    assert answer == "200"
    assert int(looks) < 20, "it looked again and again"


SHORT_OF_FILES = """
import asyncio, os, resource, socket
from pathlib import Path
from tests.server.memory import MemoryService
from treadle.server import door
from treadle.server.run import Doors, serving

looks = 0
accept = door.Door._accept
def counted(self):
    global looks
    looks += 1
    accept(self)
door.Door._accept = counted

async def main():
    async with serving(MemoryService(Path()), Doors(port=0)) as bound:
        host, port = bound.url.removeprefix("http://").split(":")
        client = socket.create_connection((host, int(port)))
        host = f"{host}:{port}"
        client.sendall(f"GET /api/v1/health HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode())
        client.setblocking(False)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
        for _ in range(200):
            await asyncio.sleep(0.002)
        rested = looks
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        loop = asyncio.get_running_loop()
        answer = await asyncio.wait_for(loop.sock_recv(client, 12), 30)
        print(rested, answer.split()[1].decode())

asyncio.run(main())
"""


def request(place: tuple[str, int], token: str, path: str = "/api/v1/status") -> bytes:
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {place[0]}:{place[1]}",
        f"Authorization: Bearer {token}",
        "",
        "",
    )
    return "\r\n".join(lines).encode()


def ask(
    connection: socket.socket, place: tuple[str, int], token: str, path: str = "/api/v1/status"
) -> None:
    connection.settimeout(30)
    connection.sendall(request(place, token, path))
    answer = b""
    while b"}" not in answer:
        more = connection.recv(4096)
        assert more, "the connection was closed"
        answer += more
    assert answer.startswith(b"HTTP/1.1 200")


def test_a4_half_of_all_descriptors_stay_with_the_engine_and_the_store() -> None:
    for descriptors in (256, 1024, 4096, 65_536):
        unix, tcp = door_limits(descriptors)
        assert unix.most + tcp.most <= descriptors // 2
        assert unix.per_peer < unix.most
        assert tcp.per_peer < tcp.most
    assert door_limits(65_536) == (DoorLimits(1024, 512), DoorLimits(512, 256, 128))
