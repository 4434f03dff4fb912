"""A real daemon over many simulated agents: a part of fleet_scale.py."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from treadle.client.client import Client
from treadle.core.errors import TreadleError
from treadle.wire.jobs import JobRequest
from treadle.wire.problems import UnsettledError

WITHIN_S = 300.0


class Spread(NamedTuple):
    p50: float
    p99: float
    max: float


class Report(msgspec.Struct, rename=lambda name: name.replace("_", " ")):
    """What agents saw (fleet_agents.Seen)."""

    calls: dict[str, int]
    quiet: dict[str, float]
    taken: dict[str, float]
    refill: dict[str, float]
    orders: int
    ordered_at: dict[str, float]
    first_order_at: float
    last_order_at: float
    starts: int
    ends: int
    cpu_s: float


class Site:
    """A daemon and its agents."""

    def __init__(self, folder: Path, options: argparse.Namespace, agents: int) -> None:
        self.folder, self.options, self.agents = folder, options, agents
        self.client = Client(f"unix:{folder / 's'}", timeout_s=WITHIN_S)
        self._agents = self._start_agents()
        self._daemon = self._start_daemon()
        self.up_s = timed(lambda: wait_for(self._answers))

    def _start_agents(self) -> "subprocess.Popen[str]":
        words = ["-m", "benchmarks.fleet_agents", str(self.folder / "agents")]
        words += ["--agents", str(self.agents), "--devices", str(self.options.devices)]
        words += ["--output-s", str(self.options.output_s)]
        made = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert made.stdout is not None
        assert made.stdout.readline() == "ready\n"
        return made

    def _start_daemon(self) -> "subprocess.Popen[bytes]":
        """The engine is registered as any third party's is."""
        plugin = self.folder / "simulated_fleet-1.dist-info"
        plugin.mkdir()
        line = "simulated-fleet = benchmarks.fleet_engine:simulated_fleet\n"
        (plugin / "entry_points.txt").write_text(f"[treadle.engines]\n{line}")
        (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: simulated-fleet\n")
        before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        path = os.pathsep.join([str(self.folder), str(Path.cwd()), *filter(None, before)])
        words = ["up", "--foreground", "--no-port", "--policy", self.options.policy]
        words += ["--engine", "simulated-fleet", "--address", str(self.folder / "agents")]
        words += ["--state", str(self.folder / "state"), "--socket", str(self.folder / "s")]
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "treadle", *words],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path},
            )

    def seen(self, *, new: bool = False) -> Report:
        """What agents saw since this was last asked with `new`."""
        return self._said("new" if new else "")

    def fail(self) -> None:
        """Everything that runs fails at once."""
        self._said("fail")

    def _said(self, line: str) -> Report:
        assert self._agents.stdin is not None
        assert self._agents.stdout is not None
        self._agents.stdin.write(f"{line}\n")
        self._agents.stdin.flush()
        return msgspec.json.decode(self._agents.stdout.readline(), type=Report)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._daemon.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        text = Path(f"/proc/{self._daemon.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) / 1024

    def metric(self, name: str) -> float:
        lines = self.client.metrics().splitlines()
        return next(float(line.split()[1]) for line in lines if line.split()[0] == name)

    def submit(self, size: int, count: int, mean_s: float) -> None:
        request = JobRequest(
            command=("train", "--seconds", str(mean_s)),
            name=f"of-{size}",
            devices=str(size),
            array=f"0-{count - 1}",
            workdir="/",
            resumable=True,
        )
        with suppress(UnsettledError):  # A busy disk: it is done once that has written it.
            self.client.submit(request)

    def end(self) -> None:
        self.client.close()
        self._daemon.terminate()
        try:
            self._daemon.wait(30)
        except subprocess.TimeoutExpired:
            print("the daemon did not leave within 30 s; it was killed")
            self._daemon.kill()
            self._daemon.wait()
        assert self._agents.stdin is not None
        self._agents.stdin.close()
        self._agents.wait(60)

    def _answers(self) -> bool:
        if self._daemon.poll() is not None:
            raise SystemExit((self.folder / "log").read_text()[-2000:])
        try:
            return bool(self.client.status())
        except (TreadleError, OSError):
            return False


@contextmanager
def site(options: argparse.Namespace, agents: int) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        made = Site(Path(folder), options, agents)
        try:
            yield made
        finally:
            made.end()


def timed(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def wait_for(there: Callable[[], object]) -> None:
    end_at = time.monotonic() + WITHIN_S
    while not there():
        if time.monotonic() > end_at:
            raise SystemExit(f"nothing after {WITHIN_S:g} s")
        time.sleep(0.1)
