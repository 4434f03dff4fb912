"""A real daemon in a process of its own, with its API on a socket; it can be killed at will."""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from tests.control.warm_start import Started
from tests.waiting import PATIENCE_S, until
from treadle.client.client import Client
from treadle.core.errors import TreadleError
from treadle.wire.jobs import JobView, State
from treadle.wire.problems import ConflictError


class Daemon:
    """`treadle up --foreground` over one state folder; its output goes to daemon.log there."""

    def __init__(self, folder: Path, *words: str, through: Sequence[str] = ()) -> None:
        """through: a command that becomes the one that is written behind it, such as `env`."""
        self.state = folder / "state"
        self.socket = folder / "s"
        self._words, self._through = words, through
        self._process: Started | subprocess.Popen[bytes] | None = None
        self.client = Client(f"unix:{self.socket}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> "Daemon":
        self.state.mkdir(mode=0o700, exist_ok=True)
        words = ["up", "--foreground", "--state", str(self.state), "--socket", str(self.socket)]
        words += self._words
        path = self.state / "daemon.log"
        path.touch(0o600)
        with path.open("ab") as log:
            self._process = self._started(words, log)
        until(self._answers)
        return self

    def _started(self, words: list[str], log: IO[bytes]) -> "Started | subprocess.Popen[bytes]":
        if not self._through:
            return Started(words, log)
        command = [*self._through, sys.executable, "-m", "treadle", *words]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )

    def kill(self) -> None:
        """As a power cut of the controller alone would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.client.close()

    def leave(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to leave; jobs run on. Its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(PATIENCE_S)
        self.client.close()
        return code

    def stop(self) -> None:
        """Cancel everything and leave nothing behind."""
        if not self.is_running:
            return
        assert self._process is not None
        for view in self.client.job_page(limit=1000).jobs:
            try:
                self.client.cancel(view.id)
            except ConflictError:
                continue  # It has ended by now.
        until(lambda: not self.client.job_page(limit=1).jobs)
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)
        self.client.close()

    def view(self, job: str) -> JobView:
        return self.client.job(job).job

    def ended(self, *jobs: str) -> list[JobView]:
        until(lambda: all(self.view(job).state.ended for job in jobs))
        return [self.view(job) for job in jobs]

    def reached(self, state: State, *jobs: str) -> None:
        until(lambda: all(self.view(job).state is state for job in jobs))

    def memory_mib(self) -> float:
        """The most that the process ever had resident."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) / 1024

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.state / "daemon.log").read_text()
        try:
            return bool(self.client.status().pid == self.pid)
        except (TreadleError, OSError):
            return False


@contextmanager
def daemon(*words: str) -> Iterator[Daemon]:
    """In a folder with a short name: the path of a socket must be."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-"))
    made = Daemon(folder, *words)
    try:
        yield made.start()
    finally:
        made.stop()
        shutil.rmtree(folder)


def everything_said(daemon: Daemon, *jobs: str) -> bytes:
    """All that the API answers about these jobs, in one."""
    client = daemon.client
    answers: list[object] = [client.snapshot(), client.debug(), client.metrics(), client.nodes()]
    answers += [client.job_page(ended=True), client.events_last(limit=1000), client.tokens()]
    answers += [b"".join(client.journal()).decode(), client.status(), client.usage()]
    for job in jobs:
        answers += [client.job(job), client.why(job)]
        attempts = client.job(job).job.attempts
        answers += [client.log(job, attempt=number + 1) for number in range(attempts)]
    return b"\n".join(msgspec.json.encode(answer) for answer in answers)


def everything_on_disk(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path, path.read_bytes()


def everybodys_words() -> Iterator[bytes]:
    """The command lines of all processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:
            continue
