"""A live controller under load: 10,000 queued jobs, and 1,000 no-op jobs beside other queues.

    python -m benchmarks.live [--queued 10000] [--noop 1000] [--policy afs] [--json]

Everything is real: a separate daemon in a temporary folder, 16 slots, the client over the Unix
socket. Task-spooler (`tsp`) and Slurm are measured in the same run if they are installed (Debian:
`task-spooler`, and `slurmctld slurmd slurm-client munge`); if one is missing or does not start, the
output says why. Each is timed from the first submission to the last end, with one submission per
job; Slurm is also timed with one job array. Wall-clock figures depend on the machine: compare only
figures of one run.
"""

import argparse
import json
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
from statistics import median, quantiles
from types import FrameType

import httpx2
from benchmarks import slurm
from benchmarks.installation import Figures

from treadle.client.client import Client
from treadle.wire.jobs import JobRequest

SLOTS = 16
WARM_UP, SHOWN = 30, 200  # no-op jobs before those that count, and the last of them
BUDGET = {"submit p99 ms": 50.0, "ps s": 1.0, "decision s": 0.2, "memory MB": 500.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--noop", type=int, default=1_000)
    parser.add_argument("--policy", default="afs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    found = Figures()
    if options.queued:
        with daemon(options.policy) as (client, pid, environment):
            queued(found, client, pid, environment, options.queued)
    if options.noop:
        with daemon(options.policy) as (client, pid, _):
            treadle_noop(found, client, pid, options.noop)
        compare_spooler(found, options.noop)
        compare_slurm(found, options.noop)
    missed = [name for name, most in BUDGET.items() if found.get(name, 0.0) > most]
    for name in missed:
        print(f"{name}: more than {BUDGET[name]:g}", file=sys.stderr)
    if options.json:
        print(json.dumps({"figures": found, "budget": BUDGET, "missed": missed}, indent=1))
    return 1 if missed else 0


def _end(number: int, _: FrameType | None) -> None:
    """Turn a termination signal into an exit that stops the daemons."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def queued(
    found: Figures, client: Client, pid: int, environment: dict[str, str], count: int
) -> None:
    """Fill the queue behind busy slots and measure."""
    for _ in range(SLOTS):
        client.submit(JobRequest(command=("sleep", "3600"), grace_s=0.1))
    took = []
    for number in range(count):
        request = JobRequest(command=("true",), name=f"job-{number}", devices=str(1 + number % 4))
        begun = time.perf_counter()
        client.submit(request)
        took.append(time.perf_counter() - begun)
    cuts = quantiles(took, n=100)
    everything = [sys.executable, "-m", "treadle", "ps", "--all", "--limit", "20000"]
    found["submit p50 ms"], found["submit p99 ms"] = 1e3 * cuts[49], 1e3 * cuts[98]
    found["ps s"] = elapsed(everything, environment)
    found["decision s"] = decision_s(client)
    found["memory MB"] = memory_mb(pid)


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


def treadle_noop(found: Figures, client: Client, pid: int, count: int) -> None:
    _run_noop(client, WARM_UP)
    before_s, begun = _cpu_s(pid), time.perf_counter()
    jobs, client_s = _run_noop(client, count)
    took_s, daemon_s = time.perf_counter() - begun, _cpu_s(pid) - before_s
    ran = [client.job(job).job for job in jobs[-SHOWN:]]
    assert all(job.code == 0 for job in ran)
    found[f"{count:,} no-op jobs: treadle, jobs a second"] = count / took_s
    found["daemon, CPU ms a job"] = 1e3 * daemon_s / count
    found["client, CPU ms a submission"] = 1e3 * client_s / count
    waits = [job.started_at - job.submitted_at for job in ran if job.started_at is not None]
    found["from submission to running, median ms"] = 1e3 * median(waits)


def _run_noop(client: Client, count: int) -> tuple[list[str], float]:
    """Their ids, and the CPU seconds that it took this process to submit them."""
    begun_s = time.process_time()
    jobs = [client.submit(JobRequest(command=("true",), retries=0)).id for _ in range(count)]
    client_s = time.process_time() - begun_s
    while _present(client):
        time.sleep(0.05)
    return jobs, client_s


def _cpu_s(pid: int) -> float:
    """CPU seconds of all its threads, without those of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare_spooler(found: Figures, count: int) -> None:
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
            found["task-spooler, jobs a second"] = count / took_s
        finally:
            with suppress(OSError, subprocess.SubprocessError):
                call("-K")


def compare_slurm(found: Figures, count: int) -> None:
    try:
        said = f"{slurm.version()} with SchedulerParameters={slurm.SCHEDULER_PARAMETERS}"
        print(said, file=sys.stderr)
        found["slurm, jobs a second"] = slurm.jobs_per_second(count, SLOTS, array=False)
        found["slurm, one array, jobs a second"] = slurm.jobs_per_second(count, SLOTS, array=True)
    except (OSError, slurm.SlurmError) as error:
        skipped("slurm", str(error))


def skipped(name: str, why: str) -> None:
    print(f"{name} is skipped: {why}", file=sys.stderr)


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
