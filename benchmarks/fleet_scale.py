"""How large a fleet one controller can manage: a real daemon over many simulated agents.

    python -m benchmarks.fleet_scale --agents 200 --devices 8 --jobs 2000
    python -m benchmarks.fleet_scale --grow            # more and more agents, until it is late

The daemon is `treadle up` in a process of its own, with the fleet engine. All agents are in one
other process (fleet_agents.py) and run nothing, but they speak the messages of real ones through
the socket and the frames of the driver on Ray. What Ray itself costs is not in these figures.

1. idle: agents only say that nothing happened, every two seconds.
2. burst: one submission that starts a job on every device at once, then one order that stops all.
3. steady: as many jobs as asked for, of 1 to 16 devices and ten minutes on average. Jobs that end
   are replaced.

The controller is late if agents wait for its next call for more than a third of a lease, or if one
fact in a hundred waits for longer than the controller takes from decision to decision. CPU times
are those of the daemon; they depend on the machine, and so do all others.
"""

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
from treadle.engines.fleet.port import LEASE_S
from treadle.wire.jobs import JobRequest
from treadle.wire.problems import UnsettledError

QUIET_MAX_S = LEASE_S / 3
MEAN_S = 600.0  # of a job
SIZES = {1: 0.5, 2: 0.2, 4: 0.15, 8: 0.12, 16: 0.03}  # shares of jobs, by devices
ARRAY = 25  # jobs of one submission
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
        path = os.pathsep.join([str(self.folder), str(Path.cwd())])
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
        assert self._agents.stdin is not None
        assert self._agents.stdout is not None
        self._agents.stdin.write("new\n" if new else "\n")
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
        self._daemon.wait(60)
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


# -- what is measured -----------------------------------------------------------------------------


class Found(NamedTuple):
    """What the table of --grow has of one size."""

    agents: int
    busy: float  # share of a core of the daemon
    agents_busy: float  # of the agents' process
    decision_s: float  # CPU time
    every_s: float  # from decision to decision
    taken: Spread
    refill: Spread
    quiet_s: float
    memory_mib: float

    @property
    def late(self) -> bool:
        return self.quiet_s > QUIET_MAX_S or self.taken.p99 > self.every_s


def measure(here: Site) -> Found:
    options = here.options
    devices = here.agents * options.devices
    print(f"{here.agents} agents, {devices} devices, policy {options.policy}")
    print(f"  up after {here.up_s:.1f} s, {here.memory_mib():.0f} MiB")
    idle(here, options.idle_s)
    burst(here, devices)
    return steady(here, round(options.jobs * here.agents / options.agents), options.seconds)


def idle(here: Site, seconds: float) -> None:
    here.seen(new=True)
    before = here.cpu_s()
    time.sleep(seconds)
    spent = here.cpu_s() - before
    polls = here.seen().calls["facts"]
    print(f"  idle: {100 * spent / seconds:.1f} % of a core, {polls / seconds:.0f} calls a second")
    print(f"    a round of {here.agents} heartbeats {1e3 * spent * here.agents / polls:.1f} ms CPU")


def burst(here: Site, devices: int) -> None:
    """A job on each device at once, and all stopped at once."""
    told(here, "start", lambda: here.submit(1, devices, 1e6), devices)
    told(here, "stop", lambda: here.client.cancel("1"), devices)
    wait_for(lambda: not here.client.job_page(limit=1).jobs)


def told(here: Site, what: str, act: Callable[[], object], orders: int) -> None:
    """How long it takes until all agents have their orders, and what the daemon does for it."""
    here.seen(new=True)
    before, decided = here.cpu_s(), here.metric("treadle_decision_cpu_seconds_total")
    begun = time.monotonic()
    act()
    answered = time.monotonic()

    def done() -> bool:
        seen = here.seen()
        return orders == (seen.starts if what == "start" else seen.ends)

    wait_for(done)
    time.sleep(1.0)  # for the last facts to be taken
    seen, spent = here.seen(), here.cpu_s() - before
    decided = here.metric("treadle_decision_cpu_seconds_total") - decided
    print(
        f"  {orders} orders to {what}: answered after {answered - begun:.2f} s, the first was "
        f"there after {seen.first_order_at - begun:.2f} s and the last after "
        f"{seen.last_order_at - begun:.2f} s\n"
        f"    CPU {spent:.2f} s, of that decisions {decided:.2f} s; the rest is "
        f"{1e3 * (spent - decided) / orders:.2f} ms an order"
    )


def steady(here: Site, jobs: int, seconds: float) -> Found:
    fill(here, jobs)
    time.sleep(10.0)
    start, metrics = here.seen(new=True), _decisions(here)
    cpu, begun, replaced = here.cpu_s(), time.monotonic(), 0
    while (passed := time.monotonic() - begun) < seconds:
        time.sleep(2.0)
        while here.seen().ends >= replaced + ARRAY:
            here.submit(1, ARRAY, MEAN_S)
            replaced += ARRAY
    spent, seen = here.cpu_s() - cpu, here.seen()
    decisions, thought = (now - was for now, was in zip(_decisions(here), metrics, strict=True))
    found = Found(
        agents=here.agents,
        busy=spent / passed,
        agents_busy=(seen.cpu_s - start.cpu_s) / passed,
        decision_s=thought / max(1, decisions),
        every_s=passed / max(1, decisions),
        taken=Spread(**seen.taken),
        refill=Spread(**seen.refill),
        quiet_s=seen.quiet["max"],
        memory_mib=here.memory_mib(),
    )
    beside = 1e3 * (spent - thought) * here.agents / seen.calls["facts"]
    print(
        f"  {jobs} jobs: {100 * found.busy:.0f} % of a core, {seen.ends / passed:.1f} ends and "
        f"{seen.orders / passed:.1f} orders a second\n"
        f"    {decisions:.0f} decisions, {1e3 * found.decision_s:.0f} ms CPU each, one every "
        f"{found.every_s:.2f} s\n"
        f"    all else is {beside:.0f} ms CPU for each round of heartbeats; calls: {seen.calls}\n"
        f"    facts were taken after {said(found.taken)}; free devices had the next job after "
        f"{said(found.refill)}\n"
        f"    agents waited for a call for {found.quiet_s:.2f} s at most; memory "
        f"{found.memory_mib:.0f} MiB; agents' process {100 * found.agents_busy:.0f} % of a core"
    )
    return found


def _decisions(here: Site) -> tuple[float, float]:
    """How many there were, and their CPU time."""
    metric = here.metric
    return metric("treadle_decisions_total"), metric("treadle_decision_cpu_seconds_total")


def fill(here: Site, jobs: int) -> None:
    for size, share in SIZES.items():
        left = round(jobs * share)
        while left > 0:
            here.submit(size, min(ARRAY, left), MEAN_S)
            left -= ARRAY


def said(spread: Spread) -> str:
    return f"{spread.p50:.2f} s (p99 {spread.p99:.2f}, max {spread.max:.2f})"


def grow(options: argparse.Namespace) -> None:
    agents = options.agents
    rows: list[Found] = []
    while not rows or (not rows[-1].late and agents <= options.agents_max):
        with site(options, agents) as here:
            rows.append(measure(here))
        agents *= 2
    print("| agents | devices | core | decision, CPU ms | every s | facts taken p99 s | quiet s |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.agents} | {row.agents * options.devices} | {100 * row.busy:.0f} % | "
            f"{1e3 * row.decision_s:.0f} | {row.every_s:.2f} | {row.taken.p99:.2f} | "
            f"{row.quiet_s:.2f} |{' late' if row.late else ''}"
        )


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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2000, help="at --agents; grows with them")
    parser.add_argument("--policy", default="weave-l")
    parser.add_argument("--idle-s", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--grow", action="store_true")
    parser.add_argument("--agents-max", type=int, default=6400)
    options = parser.parse_args()
    if options.grow:
        grow(options)
        return
    with site(options, options.agents) as here:
        measure(here)


if __name__ == "__main__":
    main()
