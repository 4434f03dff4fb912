"""What the client does when the other side is slow, gone, newer, or not Treadle at all."""

import json
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.server.memory import MemoryService
from tests.server.running import running

from treadle.client import Client, NoAnswerError, UnreachableError, calls
from treadle.client.address import default_socket, find_address, find_token, read_address
from treadle.client.errors import CrowdedError
from treadle.client.wait_polling import Absence
from treadle.core.errors import InvalidInputError
from treadle.wire.jobs import Code, JobRequest
from treadle.wire.problems import RequestError

REQUEST = JobRequest(command=("true",))


@contextmanager
def answering(answer: Callable[[socket.socket, int], None]) -> Iterator[str]:
    """A server of one line: `answer` gets each connection and its number."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            for number in range(20):
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    answer(connection, number)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def reply(connection: socket.socket, number: int, *, body: bytes, status: str = "200 OK") -> None:
    connection.recv(65536)
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)


def _wait(event: threading.Event) -> None:
    event.wait(10)


def test_a_submission_whose_answer_was_lost_is_sent_again_with_the_same_key():
    keys = []

    def answer(connection: socket.socket, number: int) -> None:
        request = connection.recv(65536)
        keys.append([line for line in request.split(b"\r\n") if b"Idempotency-Key" in line])
        if number >= 2:
            body = json.dumps({"id": "7", "jobs": ["7"], "repeated": True}).encode()
            head = f"HTTP/1.1 201 Created\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)

    with answering(answer) as url, Client(url) as client:
        assert client.submit(REQUEST).id == "7"
    assert len(keys) == 3
    assert keys[0] == keys[1] == keys[2] != []


def test_a_cancellation_whose_answer_was_lost_is_not_repeated():
    asked = []

    def answer(connection: socket.socket, number: int) -> None:
        asked.append(connection.recv(65536))

    lost = pytest.raises(NoAnswerError, match=r"did not answer POST /api/v1/jobs/1/cancel")
    with answering(answer) as url, Client(url) as client, lost:
        client.cancel("1")
    assert len(asked) == 1


def test_a_server_that_says_nothing_is_given_up_after_the_timeout():
    hold = threading.Event()
    slow = pytest.raises(NoAnswerError, match="timed out")
    with answering(lambda connection, number: _wait(hold)) as url:
        with Client(url, timeout_s=0.2) as client, slow:
            client.status()
        hold.set()


def test_fields_of_a_newer_server_are_ignored():
    body = json.dumps({"id": "7", "jobs": ["7"], "colour": "blue"}).encode()
    answer = partial(reply, body=body, status="201 Created")
    with answering(answer) as url, Client(url) as client:
        assert client.submit(REQUEST).id == "7"


def test_an_answer_that_is_not_ours_is_said_so():
    odd = pytest.raises(NoAnswerError, match="could not be read")
    with answering(partial(reply, body=b"<html>")) as url, Client(url) as client, odd:
        client.status()


def test_a_refusal_that_is_not_ours_still_has_its_status():
    answer = partial(reply, body=b"no", status="502 Bad Gateway")
    with answering(answer) as url, Client(url) as client, pytest.raises(RequestError) as refused:
        client.status()
    assert refused.value.status == 502
    assert str(refused.value) == "GET /api/v1/status was answered with 502"


def test_fields_that_were_not_given_are_not_sent():
    body = calls.sparse(JobRequest(command=("true",), priority=3, env={}))
    assert body == {"command": ("true",), "priority": 3}


def test_a_diff_that_does_not_fit_is_cut_and_said_so():
    for diff in ("x" * 2**20, "\x1b" * 2**20, "\ufffd" * 2**20):
        request = JobRequest(command=("true",), code=Code(commit="c", diff=diff))
        with running() as server, Client(server.unix) as client:
            code = client.job(client.submit(request).id).code
        assert code is not None
        assert diff.startswith(code.diff)
        assert code.cut is (code.diff != diff)
        assert len(code.diff) > 2**17


def test_a_follower_that_never_reached_a_server_says_so_at_once(tmp_path):
    client = Client(f"unix:{tmp_path}/none.sock")
    with pytest.raises(UnreachableError):
        next(client.follow_events(after=0))


def test_waiting_ends_with_the_jobs_or_with_the_time(tmp_path):
    service = MemoryService(tmp_path)
    with running(service) as server, Client(server.unix) as client:
        many = [client.submit(REQUEST).id for _ in range(40)]
        with pytest.raises(TimeoutError, match=r"^40 of the jobs had not ended after 0.1 s: "):
            client.wait(many, timeout_s=0.1)
        for identity in many:
            client.cancel(identity)
        assert [detail.job.id for detail in client.wait(many, timeout_s=5)] == many


# -- addresses


def test_the_address_given_wins_over_the_environment():
    env = {"TREADLE_URL": "http://127.0.0.1:1", "TREADLE_SOCKET": "/s"}
    assert str(find_address("unix:/a", env)) == "unix:/a"
    assert str(find_address(None, env)) == "http://127.0.0.1:1"
    assert str(find_address(None, {"TREADLE_SOCKET": "/s"})) == "unix:/s"


def test_the_default_socket_follows_the_xdg_folders():
    assert default_socket({"XDG_RUNTIME_DIR": "/run/user/5"}) == Path(
        "/run/user/5/treadle/treadle.sock"
    )
    assert default_socket({"XDG_STATE_HOME": "/st"}) == Path("/st/treadle/treadle.sock")
    assert default_socket({}) == Path.home() / ".local/state/treadle/treadle.sock"


@pytest.mark.parametrize(
    "text", ["unix:relative", "ftp://host", "127.0.0.1:80", "http://", "http://u:p@host", "x"]
)
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(InvalidInputError, match="should be unix:/path/to/socket or https://host"):
        read_address(text)


def test_the_kept_token_goes_to_http_servers_only(tmp_path):
    (tmp_path / "treadle").mkdir()
    (tmp_path / "treadle" / "token").write_text("treadle_a_b\n")
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    web, unix = read_address("http://127.0.0.1:1"), read_address("unix:/s")
    assert find_token(None, web, env) == "treadle_a_b"
    assert find_token(None, unix, env) is None
    assert find_token(None, unix, {**env, "TREADLE_TOKEN": "treadle_c_d"}) == "treadle_c_d"
    assert find_token("treadle_e_f", web, {**env, "TREADLE_TOKEN": "treadle_c_d"}) == "treadle_e_f"
    with pytest.raises(InvalidInputError):
        find_token("a\nb", web, env)


# -- pieces


def test_the_client_loads_without_the_server():
    code = (
        "import sys; from treadle.client import Client;"
        "assert not {'fastapi', 'httpx2', 'pydantic', 'sqlalchemy', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_u17_an_absent_server_is_waited_for_only_if_it_was_there_before():
    moment = [0.0]
    absence, gone = Absence(lambda: moment[0]), UnreachableError("gone")
    with pytest.raises(UnreachableError):
        absence.lasts(gone)
    absence.answered()
    for moment[0] in (0.0, 1800.0, 3600.0):
        absence.lasts(gone)
    absence.answered()
    moment[0] = 3700.0
    absence.lasts(gone)
    moment[0] = 7301.0
    with pytest.raises(UnreachableError):
        absence.lasts(gone)


@contextmanager
def full_socket() -> Iterator[Path]:
    """A socket with as many connections waiting as fit, and nobody who takes them."""
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder, ExitStack() as opened:
        path = Path(folder) / "s"
        door = opened.enter_context(socket.socket(socket.AF_UNIX))
        door.bind(str(path))
        door.listen(1)
        for _ in range(2):
            opened.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
        yield path


def test_a_server_with_a_full_queue_is_waited_for_and_not_called_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("treadle.client.client.sleep", waited.append)
    sentence = "has no room for another connection now; try again"
    with (
        full_socket() as path,
        Client(f"unix:{path}") as client,
        pytest.raises(CrowdedError, match=sentence),
    ):
        client.status()
    assert len(waited) == 6
