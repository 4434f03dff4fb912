"""A real Ray cluster for tests, and fleets over it."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

TESTS = Path(__file__).parents[2]
ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    # A node that was killed is missed within two seconds.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_worker_niceness": "0",  # Other tests would keep actors from starting.
    # Workers that nobody uses cost a second of a core each.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}
NODES = {"n3": 2, "n0": 3, "n1": 2, "n2": 2}  # CPU slots of each; the first has the head
HEAD = "n3"
BEGIN_WITHIN_S = 180.0  # agents on all nodes
TOKEN = "a-token-of-the-tests-with-more-than-thirty-two-characters"


class RayCluster:
    """Its nodes can be lost and given back."""

    def __init__(self, folder: Path, host: "subprocess.Popen[str]", address: str) -> None:
        self.folder, self._host, self.address = folder, host, address
        self.lost: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        """What a driver needs to be let in."""
        return environment(self.folder)

    def connect(self) -> socket.socket:
        """A connection to the driver that all tests share."""
        link = socket.socket(socket.AF_UNIX)
        link.connect(str(self.folder / "driver"))
        return link

    def lose(self, name: str) -> None:
        self.lost.append(name)
        self._say("lose", name)

    def give_back(self, name: str) -> None:
        self._say("return", name)
        self.lost.remove(name)

    def give_back_all(self) -> None:
        for name in list(self.lost):
            self.give_back(name)

    def _say(self, verb: str, name: str) -> None:
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        self._host.stdin.write(f"{verb} {name}\n")
        self._host.stdin.flush()
        answer = self._host.stdout.readline()
        assert answer == "done\n", (answer, (self.folder / "host.log").read_text())


def environment(folder: Path) -> dict[str, str]:
    token = folder / "token"
    return {**ENVIRONMENT, "RAY_TMPDIR": str(folder), "RAY_AUTH_TOKEN_PATH": str(token)}


@contextmanager
def ray_cluster(types: Mapping[str, str] = MappingProxyType({})) -> Iterator[RayCluster]:
    """types: what the devices of nodes are called; CPU slots if they are not named.

    It is cleared away when this process ends, however it ends: its input is closed then.
    """
    folder = Path(tempfile.mkdtemp(prefix="tray-"))
    (folder / "ray").mkdir()
    (folder / "token").write_text(TOKEN)
    with (folder / "host.log").open("wb") as log:
        host = subprocess.Popen(
            [sys.executable, "-m", "tests.on_ray.host", str(folder), json.dumps(dict(types))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=TESTS,
            env={**os.environ, **environment(folder)},
            start_new_session=True,
        )
    assert host.stdin is not None
    assert host.stdout is not None
    try:
        address = host.stdout.readline().strip()
        assert address, (folder / "host.log").read_text()
        yield RayCluster(folder, host, address)
    finally:
        host.stdin.close()
        try:
            host.wait(60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(host.pid, signal.SIGKILL)
            host.stdout.close()
