"""A daemon that is there and does not answer: every command says so, and how to end it."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.daemons import Daemon
from tests.control.warm_start import ran
from treadle.cli.live import silent_daemon
from treadle.cli.live.silent_daemon import SilentDaemonError, check_answers


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """In a folder with a short name: the path of a socket must be."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-"))
    made = Daemon(folder, "--devices", "1").start()
    yield made
    made.stop()
    shutil.rmtree(folder, ignore_errors=True)


def treadle(daemon: Daemon, *words: str) -> "subprocess.CompletedProcess[str]":
    home = daemon.state.parent / "home"
    env = {**os.environ, "TREADLE_SOCKET": str(daemon.socket), "XDG_STATE_HOME": str(home)}
    return ran(*words, env=env)


def test_a_daemon_that_holds_the_folder_and_listens_elsewhere_is_named(daemon: Daemon) -> None:
    home = daemon.state.parent / "home"
    home.mkdir(exist_ok=True)
    (home / "treadle").symlink_to(daemon.state)
    elsewhere = daemon.socket.rename(daemon.socket.with_name("t"))
    done = treadle(daemon, "down")
    elsewhere.rename(daemon.socket)
    assert done.returncode == 1
    assert f"but process {daemon.pid} holds the state folder" in done.stderr
    assert f"kill {daemon.pid} ends it (kill -9 {daemon.pid} if it hangs)" in done.stderr


def test_a_daemon_that_hangs_is_named_with_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    monkeypatch.setenv("TREADLE_SOCKET", str(path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        check_answers(0.1)  # None listens yet.
        listener.listen()
        pid = os.getpid()
        with pytest.raises(SilentDaemonError, match=f"process {pid}\\) has not answered for 0.1 s"):
            check_answers(0.1)
    assert silent_daemon.WITHIN_S == 10.0
