"""`treadle up --engine ray` without an address: a head of its own, on loopback and with a token."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.control.daemons import Daemon
from tests.on_ray.cluster import RayCluster, environment
from tests.shared import thorough
from treadle.engines.clusters.ray.head import Head, head, stop
from treadle.wire.jobs import JobRequest, State


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)


def head_of(live: Daemon) -> Head:
    return msgspec.json.decode((live.state / "ray" / "head.json").read_bytes(), type=Head)


def listeners(inodes: set[str]) -> set[str]:
    """The addresses on which sockets of these inodes listen, in the kernel's hexadecimal form."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1].partition(":")[0])
    return found


def sockets_of(folder: str) -> set[str]:
    """The inodes of the sockets of all processes that have this folder in their command line."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if folder.encode() not in (process / "cmdline").read_bytes():
                continue
            targets = [str(each.readlink()) for each in (process / "fd").iterdir()]
        except OSError:
            continue
        found |= {target[8:-1] for target in targets if target.startswith("socket:[")}
    return found


@pytest.fixture
def live() -> Iterator[Daemon]:
    """A daemon that finds the head of its state folder: both at once may take too long to start."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-"))
    made = Daemon(folder, "--engine", "ray", "--devices", "2", "--no-port")
    try:
        head(made.state / "ray", node_name="n0")
        yield made.start()
    finally:
        try:
            made.stop()
        finally:
            stop(made.state / "ray")
            shutil.rmtree(folder)


def up(live: Daemon, cluster: RayCluster) -> "subprocess.CompletedProcess[str]":
    """Another start in the same state folder, on that cluster."""
    command = [sys.executable, "-m", "treadle", "up", "--foreground", "--no-port", "--state"]
    command += [str(live.state), "--socket", str(live.socket), "--engine", "ray"]
    return subprocess.run(
        [*command, "--address", cluster.address],
        env={**os.environ, **environment(cluster.folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@thorough
def test_a_head_of_its_own(live: Daemon, ray_nodes: RayCluster, tmp_path: Path) -> None:
    """1. It listens on loopback alone. 2. Its token is its owner's. 3. It outlives the daemon, with
    its job, and the next one finds both. 4. Another cluster, where a node has the same name, is
    refused meanwhile. 5. `leave` ends it.
    """
    made = head_of(live)
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert listeners(sockets_of(made.folder)) <= loopback
    assert listeners(sockets_of(made.folder))
    assert Path(made.token).stat().st_mode & 0o777 == 0o600

    command = ("sh", "-c", 'while test ! -e "$0"; do sleep 0.1; done', str(tmp_path / "go"))
    job = live.client.submit(JobRequest(command=command, workdir="/")).id
    live.reached(State.RUNNING, job)
    assert live.leave() == 0
    refused = up(live, ray_nodes)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1] == (
        "treadle: 1 job of this state folder runs on its own Ray head, and "
        f"{ray_nodes.address} is another cluster; start with --engine ray --address local and let "
        "them end, or cancel them"
    )
    live.start()
    assert head_of(live) == made
    assert live.view(job).attempts == 1
    (tmp_path / "go").touch()
    assert live.ended(job)[0].state is State.SUCCEEDED

    done = subprocess.run(
        [sys.executable, "-m", "treadle.engines.clusters.ray", "leave", str(live.state)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = (
        r"the head was ended, [2-9] processes of Ray; "
        r"jobs that still run there are killed within 5 s\n"
    )
    assert re.fullmatch(said, done.stdout), done
    assert not sockets_of(made.folder)
