"""Attached runs and shells, against a real daemon and a real terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
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


class Terminal:
    """`treadle` in a terminal of its own."""

    def __init__(self, made: Daemon, folder: Path, *words: str) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            env = {**env_of(made), "SHELL": "/bin/sh", "PS1": "$ "}
            os.execve(sys.executable, [sys.executable, "-m", "treadle", *words], env)
        self.text = ""

    def type(self, line: str) -> None:
        os.write(self._master, line.encode())

    def until(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            if not self._more():
                break
        assert text in self.text, self.text

    def end(self) -> int:
        while self._more():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self._master)
        return os.waitstatus_to_exitcode(status)

    def _more(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 0.5)
        if not ready:
            return True
        try:
            piece = os.read(self._master, 65_536)
        except OSError:
            return False
        self.text += piece.decode(errors="replace")
        return bool(piece)


def test_c_a_shell_has_its_devices_and_a_terminal_and_ends_its_job(
    made: Daemon, tmp_path: Path
) -> None:
    there = Terminal(made, tmp_path, "shell", "-d", "2")
    there.until("exit ends it")
    there.type('echo "n=$TREADLE_NUM_DEVICES"; tty >/dev/null && echo on a "terminal"\n')
    there.until("n=2")
    there.until("on a terminal")
    (view,) = made.client.job_page().jobs
    assert (view.name, len(view.devices), view.state) == ("shell", 2, State.RUNNING)
    there.type("exit 3\n")
    assert there.end() == 3
    assert made.ended(view.id)[0].state is State.SUCCEEDED


def test_c_a_shell_is_ended_when_its_job_is(made: Daemon, tmp_path: Path) -> None:
    there = Terminal(made, tmp_path, "shell")
    there.until("exit ends it")
    (view,) = made.client.job_page().jobs
    made.client.cancel(view.id)
    there.until("its devices are no longer yours")
    assert there.end() != 0
    made.ended(view.id)


def test_c_leaving_a_shell_that_waits_cancels_its_job(made: Daemon, tmp_path: Path) -> None:
    first = Terminal(made, tmp_path, "shell", "-d", "2")
    first.until("exit ends it")
    second = Terminal(made, tmp_path, "shell", "-n", "second")
    second.until("waits: ")
    (view,) = made.client.job_page(name="second").jobs
    second.type("\x03")
    assert second.end() == 130
    assert made.ended(view.id)[0].state is State.CANCELLED
    first.type("exit 0\n")
    assert first.end() == 0
