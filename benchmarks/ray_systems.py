"""Two ways to run a command on one Ray cluster: Ray's job submission, and Treadle.

A part of ray_side_by_side.py. All commands are the same shell commands. The first thing each does
is to note the time, at which its first line is printed.
"""

import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

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
NOTE = 'date +%s.%N | tee "$0.new"; mv "$0.new" "$0"; sleep "$1"; touch "$0.ended"'
ON_RANK_0 = f'test "$RANK" != 0 || {{ {NOTE}; }}'
GANG = """
import subprocess, sys, ray
from ray.util.placement_group import placement_group
ray.init(address=sys.argv[1], _node_ip_address="127.0.0.1", log_to_driver=False)
bundles = [{"CPU": int(sys.argv[3])}] * int(sys.argv[2])
ray.get(placement_group(bundles, "STRICT_SPREAD").ready())
subprocess.run(sys.argv[4:], check=True)
"""


class System(Protocol):
    """Something that takes jobs."""

    name: str

    def submit(self, note: Path, seconds: float) -> None: ...

    # One that needs all slots of all nodes at the same time.
    def submit_gang(self, note: Path, seconds: float) -> None: ...


class RayJobs:
    name = "Ray's job submission"

    def __init__(self, address: str, dashboard: str) -> None:
        from ray.job_submission import JobSubmissionClient  # noqa: PLC0415

        self._address = address
        self._client: Any = JobSubmissionClient(f"http://{dashboard}")

    def submit(self, note: Path, seconds: float) -> None:
        entry = shlex.join(["sh", "-c", NOTE, str(note), f"{seconds:g}"])
        self._client.submit_job(entrypoint=entry, entrypoint_num_cpus=1)

    def submit_gang(self, note: Path, seconds: float) -> None:
        script = note.with_suffix(".py")
        script.write_text(GANG)
        words = [sys.executable, str(script), self._address, str(NODES), str(SLOTS)]
        words += ["sh", "-c", NOTE, str(note), f"{seconds:g}"]
        self._client.submit_job(entrypoint=shlex.join(words))


class Treadle:
    name = "Treadle"

    def __init__(self, folder: Path, address: str) -> None:
        words = ["up", "--foreground", "--no-port", "--engine", "ray", "--address", address]
        words += ["--state", str(folder / "state"), "--socket", str(folder / "s")]
        with (folder / "log").open("wb") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "treadle", *words], stdout=log, stderr=log
            )
        self._log = folder / "log"
        self._client = Client(f"unix:{folder / 's'}", timeout_s=60.0)
        wait_for(self._has_all_slots)

    def submit(self, note: Path, seconds: float) -> None:
        self._submit(1, NOTE, note, seconds)

    def submit_gang(self, note: Path, seconds: float) -> None:
        self._submit(NODES * SLOTS, ON_RANK_0, note, seconds)

    def end(self) -> None:
        self._client.close()
        self._daemon.terminate()
        self._daemon.wait(60)

    def _submit(self, devices: int, script: str, note: Path, seconds: float) -> None:
        command = ("sh", "-c", script, str(note), f"{seconds:g}")
        self._client.submit(
            JobRequest(command=command, devices=str(devices), ranks="device", workdir="/")
        )

    def _has_all_slots(self) -> bool:
        if self._daemon.poll() is not None:
            raise SystemExit(f"the daemon has ended:\n{self._log.read_text()[-2000:]}")
        with suppress(TreadleError, OSError):
            return sum(len(node.devices) for node in self._client.nodes()) == NODES * SLOTS
        return False


def missing() -> str:
    """What is not installed, in one sentence; empty if all is there."""
    try:
        import_module("ray.dashboard.optional_deps")
    except ImportError as error:
        return (
            f"Ray's job submission needs ray[default], of which {error.name} is not installed "
            "(Treadle itself needs only ray)"
        )
    return ""


def cluster() -> tuple[Any, str]:
    """Four nodes on loopback, and where jobs are submitted."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    made = Cluster(shutdown_at_exit=False)
    nodes = [
        made.add_node(
            node_ip_address="127.0.0.1",
            node_name=f"n{number}",
            num_cpus=SLOTS,
            labels={"treadle.io/slots": f"{SLOTS}"},  # also on a machine with GPUs
            include_dashboard=number == 0,
            dashboard_port=free_port("127.0.0.1"),
            object_store_memory=80 << 20,
        )
        for number in range(NODES)
    ]
    return made, nodes[0].webui_url


def wait_for(there: Callable[[], object]) -> None:
    end_at = time.monotonic() + WITHIN_S
    while not there():
        if time.monotonic() > end_at:
            raise SystemExit(f"nothing after {WITHIN_S:g} s")
        time.sleep(0.05)
