"""The same short jobs through Ray's own job submission and through Treadle, on one Ray cluster.

    pip install --target EXTRA 'ray[default]==2.60.0'      # Ray's job server; Treadle needs it not
    PYTHONPATH=EXTRA python -m benchmarks.ray_side_by_side [--jobs 200] [--beside 40]

Four nodes of two CPU slots each, on loopback of one machine. First all jobs through Ray, then all
through Treadle, each job with one slot.

1. Jobs that only note when they ran, all submitted at once: how many a minute, and the time from
   the submission to the command.
2. A gang that needs all slots of all four nodes, submitted when a quarter of so many jobs of a
   second are (--beside). On Ray it is a job that asks for a placement group of one bundle on each
   node. When does it run, and how many of the others have ended by then?
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple, Protocol

from treadle.client.client import Client
from treadle.core.errors import TreadleError
from treadle.engines.node.environment import free_port
from treadle.wire.jobs import JobRequest

NODES, SLOTS = 4, 2
WITHIN_S = 1500.0
ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "180",  # on a busy machine
}
NOTE = 'date +%s.%N > "$0.new"; mv "$0.new" "$0"; sleep "$1"; touch "$0.ended"'
GANG = """
import sys, time, ray
from ray.util.placement_group import placement_group
ray.init(address=sys.argv[1], _node_ip_address="127.0.0.1", log_to_driver=False)
ray.get(placement_group([{"CPU": int(sys.argv[4])}] * int(sys.argv[3]), "STRICT_SPREAD").ready())
open(sys.argv[2], "w").write(str(time.time()))
"""


class System(Protocol):
    """Something that takes jobs."""

    name: str

    def submit(self, note: Path, seconds: float) -> None: ...
    def submit_gang(self, note: Path) -> None: ...


class RayJobs:
    name = "Ray's job submission"

    def __init__(self, address: str, dashboard: str) -> None:
        from ray.job_submission import JobSubmissionClient  # noqa: PLC0415

        self._address = address
        self._client: Any = JobSubmissionClient(f"http://{dashboard}")

    def submit(self, note: Path, seconds: float) -> None:
        entry = f"sh -c '{NOTE}' {note} {seconds:g}"
        self._client.submit_job(entrypoint=entry, entrypoint_num_cpus=1)

    def submit_gang(self, note: Path) -> None:
        script = note.with_suffix(".py")
        script.write_text(GANG)
        entry = f"{sys.executable} {script} {self._address} {note} {NODES} {SLOTS}"
        self._client.submit_job(entrypoint=entry)


class Treadle:
    name = "Treadle"

    def __init__(self, folder: Path, address: str) -> None:
        words = ["up", "--foreground", "--no-port", "--engine", "ray", "--address", address]
        words += ["--state", str(folder / "state"), "--socket", str(folder / "s")]
        with (folder / "log").open("wb") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "treadle", *words], stdout=log, stderr=log
            )
        self._client = Client(f"unix:{folder / 's'}", timeout_s=60.0)
        wait_for(self._answers)

    def submit(self, note: Path, seconds: float) -> None:
        self._submit(1, ("sh", "-c", NOTE, str(note), f"{seconds:g}"))

    def submit_gang(self, note: Path) -> None:
        self._submit(
            NODES * SLOTS, ("sh", "-c", f'test "$RANK" != 0 || {{ {NOTE}; }}', str(note), "0")
        )

    def _submit(self, devices: int, command: tuple[str, ...]) -> None:
        self._client.submit(
            JobRequest(command=command, devices=str(devices), ranks="device", workdir="/")
        )

    def end(self) -> None:
        self._client.close()
        self._daemon.terminate()
        self._daemon.wait(60)

    def _answers(self) -> bool:
        assert self._daemon.poll() is None, "the daemon has ended"
        with suppress(TreadleError, OSError):
            return sum(len(node.devices) for node in self._client.nodes()) == NODES * SLOTS
        return False


class Found(NamedTuple):
    name: str
    per_minute: float
    submit_s: float  # that one submission took
    p50_s: float  # from the submission to the command
    p99_s: float
    gang_s: float  # until the gang ran
    ended: int  # jobs that had ended by then
    whole_s: float  # until all of them had ended


def measure(system: System, folder: Path, jobs: int, beside: int) -> Found:
    folder.mkdir()
    at: dict[Path, float] = {}
    begun = time.time()
    for number in range(jobs):
        note = folder / f"short{number}"
        at[note] = time.time()
        system.submit(note, 0.0)
    submitted = time.time()
    wait_for(lambda: sum(ended(note) for note in at) == jobs)
    passed = time.time() - begun
    cuts = quantiles([ran_at(note) - then for note, then in at.items()], n=100)

    others = [folder / f"beside{number}" for number in range(beside)]
    gang, began = folder / "gang", time.time()
    asked = began
    for number, note in enumerate(others):
        system.submit(note, 1.0)
        if number == beside // 4:
            asked = time.time()
            system.submit_gang(gang)
    over = -1

    def done() -> bool:
        nonlocal over
        count = sum(map(ended, others))
        if over < 0 and gang.exists():
            over = count
        return over >= 0 and count == beside

    wait_for(done)
    whole = time.time() - began
    return Found(
        name=system.name,
        per_minute=60 * jobs / passed,
        submit_s=(submitted - begun) / jobs,
        p50_s=cuts[49],
        p99_s=cuts[98],
        gang_s=ran_at(gang) - asked,
        ended=over,
        whole_s=whole,
    )


def ended(note: Path) -> bool:
    return note.with_name(f"{note.name}.ended").exists()


def ran_at(note: Path) -> float:
    return float(note.read_text())


def wait_for(there: Callable[[], object]) -> None:
    end_at = time.monotonic() + WITHIN_S
    while not there():
        if time.monotonic() > end_at:
            raise SystemExit(f"nothing after {WITHIN_S:g} s")
        time.sleep(0.05)


def run(folder: Path, options: argparse.Namespace) -> list[Found]:
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    cluster = Cluster(shutdown_at_exit=False)
    try:
        nodes = [
            cluster.add_node(
                node_ip_address="127.0.0.1",
                node_name=f"n{number}",
                num_cpus=SLOTS,
                include_dashboard=number == 0,
                dashboard_port=free_port("127.0.0.1"),
                object_store_memory=80 << 20,
            )
            for number in range(NODES)
        ]
        by_ray = RayJobs(cluster.address, nodes[0].webui_url)
        found = [measure(by_ray, folder / "ray", options.jobs, options.beside)]
        show(found)
        treadle = Treadle(folder, cluster.address)
        try:
            found.append(measure(treadle, folder / "treadle", options.jobs, options.beside))
        finally:
            treadle.end()
        return found
    finally:
        cluster.shutdown()


def show(found: list[Found]) -> None:
    print("| | jobs a minute | a submission | start, median | p99 | gang ran after | beside it |")
    print("|---|---|---|---|---|---|---|")
    for row in found:
        print(
            f"| {row.name} | {row.per_minute:.0f} | {1e3 * row.submit_s:.0f} ms | "
            f"{row.p50_s:.1f} s | {row.p99_s:.1f} s | {row.gang_s:.1f} s, when {row.ended} had "
            f"ended | all ended after {row.whole_s:.1f} s |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--beside", type=int, default=40)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="side-"))
    os.environ.update(ENVIRONMENT, RAY_TMPDIR=str(folder))
    try:
        show(run(folder, options))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
