"""Whatever is typed is answered with an exit code, never with a traceback."""

import contextlib
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.live_session import ValueClient, job, treadle

from treadle.cli.main import LIVE
from treadle.wire.jobs import State, Why

VERBS = sorted(set(LIVE) - {"up"})  # which would start a daemon
WORDS = [
    "1", "2", "2_0", "x", "99", "0", "-1", "--", "-", "", " ", "\x1b[2J", "\u202e", "\udcff", "~",
    "~nobody/x", "/dev/null", "..", "a.yaml", "a.sh", "all", "high", "afs", "list", "make",
    "revoke", "--json", "--all", "-a", "-u", "--user", "--state", "failed", "--array", "0-3%2",
    "--limit", "5", "--tail", "--rank", "--attempt", "--since", "10m", "--timeout", "1s", "--csv",
    "--devices", "2..4", "--env", "A=1", "A", "--env-file", "--secret", "--secret-file",
    "A=/dev/null", "--after", "--hold", "--dry-run", "-q", "--wait", "--attach", "-f",
    "--workdir", "--time-limit", "1-0:0", "--drain", "--cancel", "-y", "--expand", "--name", "-o",
    "out", "manage", "avoid", "box:0", "--help", "-h",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("typed")
    (made / "a.yaml").write_text("run: true\n")
    (made / "a.sh").write_text("#TREADLE --devices 2\ntrue\n")
    return made


def printed() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(VERBS), st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=6))
def test_any_words_are_answered_with_an_exit_code(folder, monkeypatch, verb, words) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("TREADLE_URL", raising=False)
    client = ValueClient(
        views=[
            job("1", State.SUCCEEDED, name="x", attempts=1, code=0),
            job("2_0", State.FAILED, array="2", index=0, code=1),
        ],
        whys={"1": Why(id="1", state=State.SUCCEEDED)},
        logs={(1, 0): "one\ntwo\n"},
    )
    client.details["12"] = client.job("1")
    out, err = printed(), printed()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = treadle(client, verb, *words)
    assert 0 <= code <= 130
    err.seek(0)
    assert "\x1b" not in err.read()
