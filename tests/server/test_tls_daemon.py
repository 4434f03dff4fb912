"""A daemon that other machines reach: a login, a job, a renewed certificate, another key."""

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.warm_start import ran

CLEAN = ("TREADLE_URL", "TREADLE_SOCKET", "TREADLE_TOKEN", "TREADLE_STORE", "TREADLE_FINGERPRINT")


class Side:
    """Somebody's terminal: a home of its own, with its own daemon and logins."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        kept = {name: value for name, value in os.environ.items() if name not in CLEAN}
        names = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "HOME")
        self.env = kept | {name: str(folder) for name in names}
        self.folder = folder

    def treadle(self, *words: str, given: str = "", code: int = 0) -> str:
        found = ran(*words, given=given, env=self.env, cwd=self.folder)
        assert found.returncode == code, (words, found.stdout, found.stderr)
        return found.stdout if code == 0 else found.stderr


@pytest.fixture
def sides() -> Iterator[tuple[Side, Side]]:
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        server, client = Side(Path(folder) / "server"), Side(Path(folder) / "client")
        try:
            yield server, client
        finally:
            server.treadle("down", "--cancel", "-y")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_user_on_another_machine_logs_in_submits_and_is_not_fooled(
    sides: tuple[Side, Side],
) -> None:
    """1. The daemon prints the fingerprint of its key. 2. A client logs in with it and runs a job.
    3. The certificate is renewed, with the same key: nothing changes for the client. 4. The key
    is another: the client sends nothing and says what to do."""
    server, client = sides
    place = f"0.0.0.0:{free_port()}"
    printed = server.treadle("up", "--devices", "1", "--listen", place)
    status = json.loads(server.treadle("status", "--json"))
    assert status["fingerprint"] in printed
    url = status["url"]
    assert url == f"https://127.0.0.1:{place.partition(':')[2]}"
    token = server.treadle("token", "make", "laptop").strip()

    client.treadle("login", url, "--fingerprint", status["fingerprint"], given=token)
    job = client.treadle("submit", "--quiet", "--", "echo", "hello").strip()
    client.treadle("wait", job)
    assert client.treadle("logs", job) == "hello\n"
    (view,) = json.loads(client.treadle("token", "list", "--json"))
    assert view["used_from"] == "127.0.0.1"

    server.treadle("down")
    folder = server.folder / "treadle" / "tls"
    (folder / "certificate.pem").unlink()
    server.treadle("up")
    assert client.treadle("logs", job) == "hello\n"

    server.treadle("down")
    (folder / "key.pem").unlink()
    (folder / "certificate.pem").unlink()
    server.treadle("up")
    said = client.treadle("ps", code=111)
    assert "has another key than before" in said
    assert f"run `treadle login {url}` again" in said


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    side = Side(tmp_path / "x")
    assert "--tls-cert and --tls-key are given together" in side.treadle(
        "up", "--port", "0", "--tls-cert", "x.pem", code=2
    )
    assert "need --listen or --port" in side.treadle("up", "--host", "a.lab", code=2)
