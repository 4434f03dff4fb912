"""The sockets: who may connect, who they are, and what is cleared away at start."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import pytest

from tests.server.memory import MemoryService
from tests.server.running import running
from tests.telling import within
from treadle.client import Client, UnreachableError
from treadle.core.errors import InvalidInputError
from treadle.server.peers import Peer, peer_of
from treadle.server.run import Doors, serving
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import Role, Who
from treadle.wire.problems import NotAllowedError, NotKnownError

AS_SOMEBODY_ELSE = """
import http.client, os, socket, sys
os.setgid(12345)
os.setuid(12345)
connection = http.client.HTTPConnection("treadle")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request(sys.argv[2], sys.argv[3])
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


@pytest.fixture
def short() -> Iterator[Path]:
    with TemporaryDirectory(prefix="treadle-") as folder:
        yield Path(folder)


def opened(doors: Doors) -> None:
    async def main() -> None:
        async with serving(MemoryService(Path()), doors):
            pass

    asyncio.run(main())


def refusal(doors: Doors) -> str:
    with pytest.raises(InvalidInputError) as refused:
        opened(doors)
    return str(refused.value)


def test_the_kernel_says_who_asks_on_a_unix_socket():
    with running() as server, Client(server.unix) as client:
        assert client.status().pid == os.getpid()
        assert client.tokens() == ()
        server.service.people = {os.getuid(): Who(user="vera", role=Role.VIEWER)}
        with pytest.raises(NotAllowedError, match="user vera has the role viewer"):
            client.tokens()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_on_the_socket_is_that_user_and_cannot_cancel_my_job():
    with running(socket_mode=0o666) as server, Client(server.unix) as client:
        assert server.bound.socket_path is not None
        for folder in (server.bound.socket_path.parent, server.bound.socket_path.parent.parent):
            folder.chmod(0o755)
        mine = client.submit(JobRequest(command=("true",))).id
        answers = [
            subprocess.run(
                [sys.executable, "-c", AS_SOMEBODY_ELSE, str(server.bound.socket_path), *asked],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for asked in (
                ("GET", f"/api/v1/jobs/{mine}"),
                ("POST", f"/api/v1/jobs/{mine}/cancel"),
                ("GET", "/api/v1/debug"),
            )
        ]
        assert answers[0].startswith("200")
        assert answers[1].startswith("403 ")
        assert f"job {mine} belongs to ada" in answers[1]
        assert "user uid12345 has the role user; this needs admin" in answers[2]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_private_socket_cannot_be_reached_by_others():
    with running() as server:
        found = subprocess.run(
            [
                sys.executable,
                "-c",
                AS_SOMEBODY_ELSE,
                str(server.bound.socket_path),
                "GET",
                "/api/v1/health",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "PermissionError" in found.stderr


def test_a_socket_without_credentials_has_no_peer():
    """Fails closed: what is not a Unix socket has no peer to name."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as unconnected:
        assert peer_of(unconnected) is None or peer_of(unconnected) == Peer(0, -1, -1)
    left, right = socket.socketpair()
    with left, right:
        found = peer_of(left)
        assert found is not None
        assert (found.pid, found.uid) == (os.getpid(), os.getuid())


def test_over_tcp_a_token_is_needed_even_from_this_machine():
    with running() as server, Client(server.url) as client:
        with pytest.raises(NotKnownError) as refused:
            client.status()
        assert str(refused.value) == "this request needs a token"
        assert client.health() == {"status": "ok"}


def test_the_socket_and_its_folder_are_private(short: Path):
    path = short / "new" / "treadle.sock"
    with running(socket_path=path, port=None):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


def test_without_a_port_there_is_no_tcp(short: Path):
    with running(port=None) as server:
        assert server.url == ""


def test_tcp_is_on_loopback_only():
    with running() as server:
        assert server.url.startswith("http://127.0.0.1:")


def test_the_socket_of_a_server_that_is_gone_is_replaced(short: Path):
    path = short / "treadle.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    with running(socket_path=path) as server, Client(server.unix) as client:
        assert client.health() == {"status": "ok"}


def test_a_second_server_does_not_take_the_socket_of_the_first(short: Path):
    path = short / "treadle.sock"
    with running(socket_path=path) as server:
        assert refusal(Doors(socket_path=path)) == (
            f"a server is already running on {path}; `treadle status` shows it"
        )
        with Client(server.unix) as client:
            assert client.health() == {"status": "ok"}


def test_a_file_that_is_no_socket_is_not_removed(short: Path):
    path = short / "treadle.sock"
    path.write_text("precious")
    assert refusal(Doors(socket_path=path)) == f"{path} exists and is not a socket; move it away"
    assert path.read_text() == "precious"


def test_a_link_in_place_of_the_socket_is_not_followed(short: Path):
    path = short / "treadle.sock"
    target = short / "target"
    target.write_text("precious")
    path.symlink_to(target)
    assert "is not a socket" in refusal(Doors(socket_path=path))
    assert target.read_text() == "precious"


def test_a_path_that_is_too_long_is_said_so(short: Path):
    path = short / ("x" * 100) / "treadle.sock"
    assert refusal(Doors(socket_path=path)) == (
        f"the socket's path {path} is longer than 100 bytes; set TREADLE_SOCKET to a shorter one"
    )


def test_a_folder_where_others_may_write_is_refused(short: Path):
    (short / "open").mkdir()
    (short / "open").chmod(0o777)
    assert "is writable by others" in refusal(Doors(socket_path=short / "open" / "treadle.sock"))


def test_a_port_that_is_taken_is_said_so():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert refusal(Doors(port=port)).startswith(f"cannot listen on 127.0.0.1:{port}: ")


@within(60)
async def test_a_server_that_listens_elsewhere_takes_its_own_names_only(short: Path) -> None:
    doors = Doors(listen="0.0.0.0", port=0, hosts=("treadle.lab.example",), tls_folder=short)
    async with serving(MemoryService(Path()), doors) as bound:
        assert bound.url.startswith("https://")
        port = bound.url.rpartition(":")[2]
        async with httpx2.AsyncClient(base_url=bound.url, trust_env=False, verify=False) as http:
            for host, status in (
                (f"127.0.0.1:{port}", 200),
                (f"treadle.lab.example:{port}", 200),
                ("treadle.lab.example", 200),
                (f"{socket.gethostname()}:{port}", 200),
                ("treadle.lab.example.evil.example", 403),
                (f"0.0.0.0:{port}", 403),
            ):
                answer = await http.get("/api/v1/health", headers={"Host": host})
                assert answer.status_code == status, host


def test_a_server_beyond_loopback_needs_tls():
    assert refusal(Doors(listen="0.0.0.0", port=0)) == (
        "0.0.0.0 can be reached by other machines and needs TLS; give --tls-cert and --tls-key"
    )


def test_a_client_that_may_not_connect_is_told_so(short: Path):
    if os.getuid() == 0:
        pytest.skip("root may connect to everything")
    with running() as server:
        assert server.bound.socket_path is not None
        server.bound.socket_path.chmod(0)
        with Client(server.unix) as client, pytest.raises(UnreachableError, match="you may not"):
            client.status()
