"""Servers that a user logged in to, and which token is sent where."""

from pathlib import Path

import pytest

from treadle.client.address import Address, find_address, find_token
from treadle.client.contexts import Contexts, ServerContext, read_contexts, write_contexts
from treadle.core.errors import InvalidInputError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TREADLE_URL", "TREADLE_SOCKET", "TREADLE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_c_a_token_is_sent_to_its_own_server_only(home: Path) -> None:
    lab = ServerContext("https://lab:8443", "secret", "sha256:00")
    write_contexts(Contexts("lab", {"lab": lab, "desk": ServerContext("http://desk:1")}))
    env = {"XDG_CONFIG_HOME": str(home)}
    address = find_address(None, env)
    assert address == Address("", "https://lab:8443", "sha256:00")
    assert find_token(None, address, env) == "secret"
    other = {**env, "TREADLE_URL": "http://elsewhere:1"}
    assert find_token(None, find_address(None, other), other) is None
    desk = {**env, "TREADLE_URL": "http://desk:1"}
    assert find_address(None, desk) == Address("", "http://desk:1")
    assert find_token(None, find_address(None, desk), desk) is None
    named = {**desk, "TREADLE_URL": "https://lab:8443"}
    assert find_token(None, find_address(None, named), named) == "secret"
    assert find_token(None, find_address("http://third:1", env), env) is None
    here = {**env, "TREADLE_SOCKET": "/x/s"}
    assert find_address(None, here).socket == "/x/s"


def test_c_a_damaged_file_is_named(home: Path) -> None:
    path = home / "treadle" / "contexts.json"
    path.parent.mkdir()
    path.write_text('{"contexts": []}')
    path.chmod(0o600)
    with pytest.raises(InvalidInputError, match=r"contexts\.json is damaged"):
        read_contexts()
