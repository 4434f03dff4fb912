"""What the engine on Ray costs on one node with nothing to do: memory, and seconds of a core.

    .venv/bin/python benchmarks/ray_cost.py

Starts `treadle up --engine ray` with a head of its own on loopback, waits, and reads /proc. Memory
is what a process has for itself (USS). Ray's processes are those with the folder of the head in
their command line.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from treadle.client.client import Client
from treadle.core.errors import TreadleError
from treadle.engines.clusters.ray import head
from treadle.engines.node import processes

IDLE_S = 30.0


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="treadle-cost-"))
    words = ["up", "--foreground", "--no-port", "--engine", "ray", "--devices", "2"]
    words += ["--state", str(folder / "state"), "--socket", str(folder / "s")]
    begun = time.perf_counter()
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen([sys.executable, "-m", "treadle", *words], stdout=log, stderr=log)
    try:
        with Client(f"unix:{folder / 's'}") as client:
            wait_for(client)
        print(f"up after {time.perf_counter() - begun:.1f} s, head included")
        report(daemon.pid, folder / "state" / "ray")
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()
        head.stop(folder / "state" / "ray")
        shutil.rmtree(folder)


def wait_for(client: Client) -> None:
    while True:
        with suppress(TreadleError, OSError):
            client.status()
            return
        time.sleep(0.1)


def report(daemon: int, folder: Path) -> None:
    made = msgspec.json.decode((folder / "head.json").read_bytes(), type=head.Head)
    lock = folder.parent / "nodes" / os.uname().nodename / "agent.lock"
    agents = [pid for pid in processes.all_pids() if has_open(pid, lock)]
    ray = [process.pid for process in head.processes_of(made)]
    workers = [pid for pid in processes.all_pids() if processes.parent_of(pid) in ray]
    kinds = {
        "daemon": [daemon],
        "driver": [pid for pid in processes.all_pids() if processes.parent_of(pid) == daemon],
        "agent": [*agents, *filter(None, map(processes.parent_of, agents))],
        "actor": [pid for pid in workers if "AgentActor" in processes.command_of(pid)],
        "Ray": ray,
    }
    before = {kind: sum(map(cpu_s, pids)) for kind, pids in kinds.items()}
    time.sleep(IDLE_S)
    for kind, pids in kinds.items():
        share = (sum(map(cpu_s, pids)) - before[kind]) / IDLE_S
        memory = sum(map(own_mib, pids))
        print(f"{kind:8} {len(pids)} processes {memory:6.0f} MiB {100 * share:5.1f} % of a core")


def has_open(pid: int, path: Path) -> bool:
    try:
        return any(each.readlink() == path for each in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def cpu_s(pid: int) -> float:
    fields = processes.stat_of(pid)
    return 0.0 if fields is None else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def own_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


if __name__ == "__main__":
    main()
