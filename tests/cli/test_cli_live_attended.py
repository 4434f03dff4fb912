"""Attached runs, against a real daemon."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.control.daemons import Daemon, daemon
from tests.waiting import until

from treadle.wire.jobs import State

PATIENCE_S = 180.0


@pytest.fixture(scope="module")
def made() -> Iterator[Daemon]:
    with daemon("--devices", "2", "--policy", "fifo") as found:
        yield found


def env_of(made: Daemon) -> dict[str, str]:
    return {**os.environ, "TREADLE_SOCKET": str(made.socket), "PYTHONUNBUFFERED": "1"}


def start(made: Daemon, folder: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "treadle", *words],
        env=env_of(made),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_c_run_prints_the_output_and_exits_as_the_job(made: Daemon, tmp_path: Path) -> None:
    process = start(made, tmp_path, "run", "--", "bash", "-c", "echo hello; exit 7")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (out, process.returncode) == ("hello\n", 7), err
    assert "submitted, 1 device" in err
    good = start(made, tmp_path, "run", "-d", "2", "--ranks", "one", "--", "echo", "fine")
    out, err = good.communicate(timeout=PATIENCE_S)
    assert (out, good.returncode) == ("fine\n", 0), err


def test_c_interrupting_a_run_cancels_the_job(made: Daemon, tmp_path: Path) -> None:
    process = start(made, tmp_path, "run", "--", "bash", "-c", "echo up; exec sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    (job,) = [view.id for view in made.client.job_page().jobs]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 103, err
    assert f"cancelling job {job}; Ctrl-C again leaves it" in err
    assert made.view(job).state is State.CANCELLED


def test_c_a_second_interrupt_leaves_the_job_to_end_by_itself(made: Daemon, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    body = f"trap 'while [ ! -e {gate} ]; do sleep 0.02; done; exit 0' TERM; echo up; "
    body += "while true; do sleep 0.02; done"
    process = start(made, tmp_path, "run", "--grace", "1h", "--", "bash", "-c", body)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    while "cancelling" not in process.stderr.readline():
        pass
    (job,) = [view.id for view in made.client.job_page().jobs]
    until(lambda: made.view(job).state is State.STOPPING)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 101
    gate.touch()
    made.ended(job)
