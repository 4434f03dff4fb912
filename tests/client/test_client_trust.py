"""Whose Unix socket the client speaks to."""

import os
import pwd
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import run
from treadle.client import Client, UnreachableError, UntrustedError
from treadle.client.address import Address
from treadle.client.exchange import check_owner
from treadle.wire.problems import NotAllowedError

NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def sock(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A socket that another user made and listens on."""
    with (
        tempfile.TemporaryDirectory(prefix="treadle", dir="/tmp") as folder,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        path = str(Path(folder) / "x.sock")
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        _give(path, NOBODY.pw_uid, monkeypatch)
        monkeypatch.delenv("TREADLE_TRUST", raising=False)
        monkeypatch.delenv("TREADLE_URL", raising=False)
        yield path
        with pytest.raises(BlockingIOError):
            listener.accept()  # Nothing has connected.


def _give(path: str, owner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it theirs; who is not root can only seem to be another user than its owner."""
    if os.geteuid() == 0:
        os.chown(path, owner, -1)
    else:
        real = os.stat

        def stat(name: str, **how: Any) -> os.stat_result:
            found = list(real(name, **how))
            found[4] = owner
            return os.stat_result(found)

        monkeypatch.setattr(os, "stat", stat)


def test_nothing_is_sent_to_another_users_socket(sock: str) -> None:
    with Client(f"unix:{sock}") as client, pytest.raises(UntrustedError) as caught:
        client.status()
    assert isinstance(caught.value, NotAllowedError)
    assert str(caught.value) == (
        f"the socket {sock} belongs to nobody, who would see what you submit; "
        "set TREADLE_TRUST=nobody if you trust them"
    )


def test_the_command_line_says_so_in_one_sentence(sock: str, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TREADLE_SOCKET", sock)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for words in (("status",), ("submit", "--no-git", "--", "true"), ("up",)):
        assert run(list(words)) == 111
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"treadle: the socket {sock} belongs to nobody, who would see")
        assert said.err.count("\n") == 1


def test_a_named_user_is_trusted(sock: str, monkeypatch) -> None:
    address = Address(sock, "")
    check_owner(address, {"TREADLE_TRUST": "alice, nobody"})
    for others in ("", "alice", "nobody2", "no,body"):
        with pytest.raises(UntrustedError):
            check_owner(address, {"TREADLE_TRUST": others})


def test_ones_own_and_roots_sockets_are_trusted_and_a_missing_one_is_unreachable(tmp_path) -> None:
    mine = tmp_path / "mine"
    mine.touch()
    check_owner(Address(str(mine), ""), {})
    check_owner(Address("/", ""), {})
    with pytest.raises(UnreachableError, match="no Treadle server answers at unix:"):
        check_owner(Address(str(tmp_path / "gone"), ""), {})
