"""A live controller under load: 10,000 queued jobs, and 1,000 no-op jobs beside other queues.

    python benchmarks/live.py [--queued 10000] [--noop 1000] [--policy afs]

Everything is real: a separate daemon in a temporary folder, 16 slots, the client over the Unix
socket. Task-spooler (`tsp`) and Slurm are measured in the same run if they are installed (Debian:
`task-spooler`, and `slurmctld slurmd slurm-client munge`); if one is missing or does not start, the
output says why. Each is timed from the first submission to the last end, with one submission per
job; Slurm is also timed with one job array. Wall-clock figures depend on the machine: compare only
figures of one run.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import quantiles
from types import FrameType

import httpx2

from treadle.client.client import Client
from treadle.wire.jobs import JobRequest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import slurm

SLOTS = 16
BUDGET = {"submit p99 ms": 50.0, "ps s": 1.0, "decision s": 0.2, "memory MB": 500.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--noop", type=int, default=1_000)
    parser.add_argument("--policy", default="afs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    missed = 0
    if options.queued:
        with daemon(options.policy) as (client, pid, environment):
            missed = queued(client, pid, environment, options.queued)
    if options.noop:
        print(f"\n{options.noop} no-op jobs through {SLOTS} slots, jobs a second")
        with daemon(options.policy) as (client, _, _):
            row("treadle", options.noop / treadle_noop(client, options.noop))
        compare_spooler(options.noop)
        compare_slurm(options.noop)
    return 1 if missed else 0


def _end(number: int, _: FrameType | None) -> None:
    """Turn a termination signal into an exit that stops the daemons."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def queued(client: Client, pid: int, environment: dict[str, str], count: int) -> int:
    """Fill the queue and measure; returns how many budgets are missed."""
    print(f"{count} queued jobs on {SLOTS} busy slots")
    for _ in range(SLOTS):
        client.submit(JobRequest(command=("sleep", "3600"), grace_s=0.1))
    took = []
    for number in range(count):
        request = JobRequest(command=("true",), name=f"job-{number}", devices=str(1 + number % 4))
        begun = time.perf_counter()
        client.submit(request)
        took.append(time.perf_counter() - begun)
    cuts = quantiles(took, n=100)
    found = {
        "submit p50 ms": 1e3 * cuts[49],
        "submit p99 ms": 1e3 * cuts[98],
        "ps s": elapsed(
            [sys.executable, "-m", "treadle", "ps", "--all", "--limit", "20000"], environment
        ),
        "decision s": decision_s(client),
        "memory MB": memory_mb(pid),
    }
    missed = 0
    for name, value in found.items():
        budget = BUDGET.get(name)
        verdict = ""
        if budget is not None:
            verdict = f"budget {budget:g}" + ("" if value <= budget else "  MISSED")
            missed += value > budget
        print(f"  {name:<16} {value:10.3f}  {verdict}")
    return missed


def decision_s(client: Client) -> float:
    """The longest of a few decisions, as the controller itself measured them."""
    for number in range(5):
        client.submit(JobRequest(command=("true",), name=f"late-{number}"))
    return max(seconds for name, seconds in figures(client) if name == "treadle_decision_seconds")


def figures(client: Client) -> Iterator[tuple[str, float]]:
    transport = httpx2.HTTPTransport(uds=client.address.socket)
    with httpx2.Client(transport=transport, base_url="http://treadle") as raw:
        text = raw.get("/api/v1/metrics").raise_for_status().text
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            yield name.partition("{")[0], float(value)


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def elapsed(command: list[str], environment: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def _present(client: Client) -> int:
    """Jobs that have not ended."""
    status = client.status()
    return status.running + status.starting + status.stopping + status.waiting


def treadle_noop(client: Client, count: int) -> float:
    begun = time.perf_counter()
    jobs = [client.submit(JobRequest(command=("true",), retries=0)).id for _ in range(count)]
    while _present(client):
        time.sleep(0.05)
    took_s = time.perf_counter() - begun
    assert client.job(jobs[-1]).job.code == 0
    return took_s


def compare_spooler(count: int) -> None:
    spooler = shutil.which("tsp") or shutil.which("ts-spooler")
    if spooler is None:
        skipped("task-spooler", "not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TS_SOCKET": f"{folder}/s", "TS_MAXFINISHED": str(count)}

        def call(*arguments: str, limit_s: float = 60.0) -> None:
            subprocess.run(
                [spooler, *arguments],
                env=environment,
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=limit_s,
            )

        try:
            call("-S", str(SLOTS))
            begun = time.perf_counter()
            for _ in range(count):
                call("-n", "true")
            call("-w", limit_s=600.0)
            took_s = time.perf_counter() - begun
        except (OSError, subprocess.SubprocessError) as error:
            skipped("task-spooler", str(error))
        else:
            row("task-spooler", count / took_s)
        finally:
            with suppress(OSError, subprocess.SubprocessError):
                call("-K")


def compare_slurm(count: int) -> None:
    try:
        print(f"  {slurm.version()} with SchedulerParameters={slurm.SCHEDULER_PARAMETERS}")
        row("slurm", slurm.jobs_per_second(count, SLOTS, array=False))
        row("slurm, one array", slurm.jobs_per_second(count, SLOTS, array=True))
    except (OSError, slurm.SlurmError) as error:
        skipped("slurm", str(error))


def skipped(name: str, why: str) -> None:
    print(f"  {name:<16} skipped: {why}")


def row(name: str, value: float) -> None:
    print(f"  {name:<16} {value:10.1f}")


@contextmanager
def daemon(policy: str) -> Iterator[tuple[Client, int, dict[str, str]]]:
    """A separate daemon, and a client for it."""
    with tempfile.TemporaryDirectory(prefix="treadle-", ignore_cleanup_errors=True) as folder:
        socket = Path(folder) / "s"
        environment = {**os.environ, "TREADLE_SOCKET": str(socket), "XDG_STATE_HOME": folder}
        environment.pop("TREADLE_URL", None)
        command = [
            sys.executable,
            "-m",
            "treadle",
            "up",
            "--devices",
            str(SLOTS),
            "--policy",
            policy,
        ]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        client = Client(f"unix:{socket}", timeout_s=60.0)
        pid = client.status().pid
        try:
            yield client, pid, environment
        finally:
            subprocess.run(
                [sys.executable, "-m", "treadle", "down", "--cancel", "--yes"],
                env=environment,
                check=False,
                stdout=subprocess.DEVNULL,
            )
            while Path(f"/proc/{pid}").exists():
                time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
