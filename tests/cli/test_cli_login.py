"""`treadle login` and `logout`, as a user types them."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from tests.control.warm_start import ran
from tests.server.running import Running
from tests.server.tls import running_tls

from treadle.wire.machine import Role

OTHER = "SHA256:" + "A" * 43


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running_tls(tmp_path / "tls") as found:
        yield found


def environment(folder: Path) -> dict[str, str]:
    gone = ("TREADLE_URL", "TREADLE_SOCKET", "TREADLE_TOKEN", "TREADLE_FINGERPRINT")
    kept = {name: value for name, value in os.environ.items() if name not in gone}
    return {**kept, "XDG_CONFIG_HOME": str(folder / "config"), "XDG_RUNTIME_DIR": str(folder)}


def treadle(folder: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    return ran(*words, given=given, env=environment(folder))


def test_log_in_by_fingerprint_use_the_server_and_log_out(server: Running, tmp_path: Path):
    token = server.service.token("ada", Role.USER)
    pin = server.bound.fingerprint
    found = treadle(
        tmp_path, "login", server.url, "--name", "lab", "--fingerprint", pin, given=f"{token}\n"
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == (
        f"logged in to lab ({server.url}, treadle 0); treadle logout goes back to this machine\n"
    )
    path = tmp_path / "config" / "treadle" / "contexts.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text()) == {
        "current": "lab",
        "contexts": {"lab": {"url": server.url, "token": token, "fingerprint": pin}},
    }
    listed = treadle(tmp_path, "token", "list", "--json")
    assert json.loads(listed.stdout)[0]["user"] == "ada"
    up = treadle(tmp_path, "up")
    assert up.returncode == 2
    assert up.stderr == (
        f"treadle: commands talk to another server, {server.url}; to start a daemon here, use "
        "treadle logout\n"
    )
    out = treadle(tmp_path, "logout")
    assert (out.returncode, out.stdout) == (0, "logged out of lab\n")
    assert token not in path.read_text()
    again = treadle(tmp_path, "logout")
    assert again.returncode == 2
    assert again.stderr == "treadle: you are not logged in anywhere (known: none)\n"


def test_a_token_that_is_refused_is_not_kept(server: Running, tmp_path: Path):
    words = ("login", server.url, "--fingerprint", server.bound.fingerprint)
    found = treadle(tmp_path, *words, given="treadle_wrong\n")
    assert found.returncode == 111
    assert "the token is unknown, expired or revoked" in found.stderr
    assert not (tmp_path / "config").exists()


def test_a_fingerprint_that_differs_is_refused(server: Running, tmp_path: Path):
    found = treadle(tmp_path, "login", server.url, "--fingerprint", OTHER, given="treadle_x\n")
    assert found.returncode == 2
    assert found.stderr == (
        f"treadle: the server at {server.url} has the key {server.bound.fingerprint}, not "
        f"{OTHER}; nothing was sent to it\n"
    )


def test_without_a_person_to_ask_a_fingerprint_is_needed(server: Running, tmp_path: Path):
    found = treadle(tmp_path, "login", server.url, given="treadle_x\n")
    assert found.returncode == 2
    assert f"give it as --fingerprint {server.bound.fingerprint}" in found.stderr
    assert not (tmp_path / "config").exists()


@pytest.mark.parametrize("said", ["y", "n"])
def test_at_a_terminal_the_key_is_shown_and_needs_a_yes(server: Running, tmp_path: Path, said: str):
    token = server.service.token("ada", Role.USER)
    pid, terminal = pty.fork()
    if pid == 0:
        words = [sys.executable, "-m", "treadle", "login", server.url]
        os.execve(sys.executable, words, environment(tmp_path))
    with os.fdopen(terminal, "r+b", buffering=0) as talk:
        heard = until(talk, b"[y/N]")
        assert server.bound.fingerprint.encode() in heard
        talk.write(said.encode() + b"\n")
        if said == "y":
            until(talk, b"token: ")
            talk.write(token.encode() + b"\n")
        heard = until(talk, b"")
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    kept = (tmp_path / "config" / "treadle" / "contexts.json").exists()
    assert token.encode() not in heard, "a token must not be echoed"
    assert (code, kept) == ((0, True) if said == "y" else (2, False))


def until(talk: IO[bytes], words: bytes) -> bytes:
    """What the terminal shows up to these words, or all of it."""
    heard = b""
    while not words or words not in heard:
        try:
            more = talk.read(1024)
        except OSError:  # The program has ended.
            more = b""
        if not more:
            assert not words, heard
            return heard
        heard += more
    return heard


def test_plain_http_beyond_this_machine_is_refused(tmp_path: Path):
    found = treadle(tmp_path, "login", "http://192.0.2.1:8437", given="treadle_x\n")
    assert found.returncode == 111
    assert "a token sent to http://192.0.2.1:8437 could be read on the way" in found.stderr
