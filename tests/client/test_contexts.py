"""Named servers, and which token is sent where."""

import json
import stat
from pathlib import Path

import pytest

from treadle.cli.main import run
from treadle.client.address import Address, find_address, find_token
from treadle.client.contexts import Contexts, ServerContext, chosen, read_contexts, write_contexts
from treadle.core.errors import InvalidInputError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TREADLE_URL", "TREADLE_SOCKET", "TREADLE_TOKEN", "TREADLE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_c_contexts_are_added_used_listed_and_removed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = home / "token.txt"
    token.write_text("treadle_user_t1_secret\n")
    lab = ("context", "add", "lab", "https://lab:8443", "--token-file", str(token), "--use")
    assert run([*lab]) == 0
    assert run(["context", "add", "desk", "http://desk:8437"]) == 0
    assert run(["context", "list"]) == 0
    assert capsys.readouterr().out == (
        "context lab: https://lab:8443, in use\n"
        "context desk: http://desk:8437\n"
        "   NAME   URL               TOKEN\n"
        "   local  this machine\n"
        "   desk   http://desk:8437  no\n"
        "*  lab    https://lab:8443  yes\n"
    )
    path = home / "treadle" / "contexts.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    saved = json.loads(path.read_text())
    assert saved["current"] == "lab"
    assert saved["contexts"]["lab"] == {
        "url": "https://lab:8443",
        "token": "treadle_user_t1_secret",
    }
    assert run(["context", "list", "--json"]) == 0
    text = capsys.readouterr().out
    assert "secret" not in text
    assert run(["context", "use", "local"]) == 0
    assert chosen() is None
    assert run(["context", "remove", "lab"]) == 0
    assert run(["context", "use", "lab"]) == 2
    assert capsys.readouterr().err == (
        "treadle: there is no context 'lab'; treadle context add lab URL makes one\n"
    )


def test_c_a_token_is_sent_to_its_own_server_only(home: Path) -> None:
    lab = ServerContext("https://lab:8443", "secret", "sha256:00")
    write_contexts(Contexts("lab", {"lab": lab, "desk": ServerContext("http://desk:1")}))
    env = {"XDG_CONFIG_HOME": str(home)}
    address = find_address(None, env)
    assert address == Address("", "https://lab:8443", "sha256:00")
    assert find_token(None, address, env) == "secret"
    other = {**env, "TREADLE_URL": "http://elsewhere:1"}
    assert find_token(None, find_address(None, other), other) is None
    desk = {**env, "TREADLE_CONTEXT": "desk"}
    assert find_address(None, desk) == Address("", "http://desk:1")
    assert find_token(None, find_address(None, desk), desk) is None
    assert find_token(None, find_address("http://third:1", env), env) is None
    here = {**env, "TREADLE_CONTEXT": "local", "TREADLE_URL": "http://x:1"}
    assert find_address(None, here).socket


def test_c_a_new_address_does_not_inherit_the_token(home: Path) -> None:
    write_contexts(Contexts("", {"lab": ServerContext("https://lab:8443", "secret")}))
    assert run(["context", "add", "lab", "https://evil:8443"]) == 0
    assert read_contexts().known["lab"] == ServerContext("https://evil:8443")


def test_c_the_option_and_the_variable_choose_a_context(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_contexts(Contexts("", {"lab": ServerContext("http://127.0.0.1:1")}))
    monkeypatch.setenv("TREADLE_CONTEXT", "")
    assert run(["--context", "lab", "status"]) == 110
    assert "no Treadle server answers at http://127.0.0.1:1" in capsys.readouterr().err
    assert run(["--context", "lbb", "status"]) == 2
    assert capsys.readouterr().err == "treadle: there is no context 'lbb'; did you mean lab?\n"


def test_c_a_damaged_file_is_named(home: Path) -> None:
    path = home / "treadle" / "contexts.json"
    path.parent.mkdir()
    path.write_text('{"contexts": []}')
    path.chmod(0o600)
    with pytest.raises(InvalidInputError, match=r"contexts\.json is damaged"):
        read_contexts()
