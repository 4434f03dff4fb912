"""The product on a Ray cluster: `treadle up --engine ray`, jobs on nodes that die, and crashes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.daemons import Daemon, daemon
from tests.on_ray.cluster import HEAD, NODES, RayCluster
from tests.on_ray.test_ray_faults import holder_of
from tests.shared import thorough
from tests.waiting import until
from treadle.engines.node import processes
from treadle.wire.jobs import State

pytestmark = thorough

# Says who it is, and waits for a file.
JOB = (
    'echo "rank $RANK of $WORLD_SIZE on node ${TREADLE_NODE_RANK:-0}"; '
    'echo $$ >> "$0.pids"; while test ! -e "$0"; do sleep 0.1; done'
)

# Does a step, reports it, and waits for a file before the next.
TRAINING = """
import os, sys, time
import treadle
for step in range(1, 5):
    treadle.report(step, 4, loss=1 / step)
    while not os.path.exists(f"{sys.argv[1]}-{step}"):
        time.sleep(0.05)
"""


class Site:
    """A daemon on a Ray cluster, and its user."""

    def __init__(self, cluster: RayCluster, live: Daemon, folder: Path) -> None:
        self.cluster, self.live, self.folder = cluster, live, folder

    def treadle(self, *words: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "treadle", *words],
            env={**os.environ, "TREADLE_SOCKET": str(self.live.socket)},
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, name: str, devices: int) -> str:
        words = ("--name", name, "--devices", str(devices), "--ranks", "device", "--resumable")
        command = ("sh", "-c", JOB, str(self.folder / name))
        answer = json.loads(self.treadle("submit", "--json", *words, "--", *command))
        return str((answer[0] if isinstance(answer, list) else answer)["id"])

    def release(self, *names: str) -> None:
        for name in names:
            (self.folder / name).touch()

    def nodes_of(self, job: str) -> set[str]:
        return {device.partition(":")[0] for device in self.live.view(job).devices}

    def pids(self, name: str) -> list[int]:
        path = self.folder / f"{name}.pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def listed(self, *health: str) -> dict[str, int]:
        """The nodes of that health that `treadle nodes` shows, with their devices."""
        nodes = json.loads(self.treadle("nodes", "--json"))
        return {node["name"]: len(node["devices"]) for node in nodes if node["health"] in health}


def held_by_another(path: Path, before: int) -> bool:
    try:
        return holder_of(path) != before
    except AssertionError:
        return False


@pytest.fixture
def site(ray_nodes: RayCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    for name, value in ray_nodes.environment.items():
        monkeypatch.setenv(name, value)
    ray_nodes.give_back_all()
    with daemon(
        "--engine", "ray", "--address", ray_nodes.address, "--no-port", "--failover", "15s"
    ) as found:
        yield Site(ray_nodes, found, tmp_path)


def test_a_day_on_a_cluster(site: Site) -> None:
    """1. Every node runs a job. 2. One job is spread over two. 3. The controller is killed and
    started again, and its jobs run on. 4. A node dies, and its job is run again elsewhere.
    """
    live = site.live
    until(lambda: site.listed("answers") == NODES)
    status = site.treadle("status").splitlines()
    assert f"  engine   ray at {site.cluster.address}" in status
    assert f"  nodes    {len(NODES)}" in status

    each = {site.submit(f"each{number}", size) for number, size in enumerate((3, 2, 2, 2))}
    live.reached(State.RUNNING, *each)
    assert {node for job in each for node in site.nodes_of(job)} == set(NODES)
    assert all(len(site.nodes_of(job)) == 1 for job in each)
    site.release(*(f"each{number}" for number in range(4)))
    assert {view.state for view in live.ended(*each)} == {State.SUCCEEDED}

    spread = site.submit("spread", 4)
    live.reached(State.RUNNING, spread)
    assert len(site.nodes_of(spread)) == 2
    until(lambda: len(site.pids("spread")) == 4)
    said = {site.treadle("logs", spread, "--rank", str(rank)).strip() for rank in range(4)}
    assert {line.partition(" on ")[0] for line in said} == {f"rank {r} of 4" for r in range(4)}
    assert {line.partition(" on ")[2] for line in said} == {"node 0", "node 1"}

    before = site.pids("spread")
    live.kill()
    assert all(processes.start_of(pid) for pid in before)
    live.start()
    live.reached(State.RUNNING, spread)
    assert site.pids("spread") == before
    assert live.view(spread).attempts == 1
    site.release("spread")
    assert live.ended(spread)[0].state is State.SUCCEEDED

    jobs = [site.submit(f"pair{number}", 2) for number in range(2)]
    live.reached(State.RUNNING, *jobs)
    victim = next(job for job in jobs if site.nodes_of(job) != {HEAD})
    name = f"pair{jobs.index(victim)}"
    until(lambda: len(site.pids(name)) == 2)
    (lost,), first = site.nodes_of(victim), site.pids(name)
    site.cluster.lose(lost)
    left = {node: size for node, size in NODES.items() if node != lost}
    until(lambda: set(site.listed("lost")) == {lost})
    assert site.listed("answers", "slow") == left
    assert f"  nodes    {len(left)}; 1 lost" in site.treadle("status").splitlines()
    until(lambda: len(site.pids(name)) == 4)
    assert not any(processes.start_of(pid) for pid in first)
    assert lost not in site.nodes_of(victim)
    assert live.view(victim).attempts == 2
    site.release("pair0", "pair1")
    assert {view.state for view in live.ended(*jobs)} == {State.SUCCEEDED}


def test_what_a_job_reports_on_a_node_is_seen_also_when_its_agent_was_killed(site: Site) -> None:
    live = site.live
    words = ("--devices", "3", "--ranks", "one")  # Only n0 has as many.
    command = (sys.executable, "-c", TRAINING, str(site.folder / "did"))
    job = json.loads(site.treadle("submit", "--json", *words, "--", *command))["id"]

    def is_at(step: int) -> bool:
        found = live.view(job).progress
        return found is not None and (found.step, found.source) == (step, "report")

    until(lambda: is_at(1))
    assert site.nodes_of(job) == {"n0"}
    (listed,) = [line for line in site.treadle("ps").splitlines() if line.split()[:1] == [job]]
    assert "25%" in listed
    lock = live.state / "nodes" / "n0" / "agent.lock"
    os.kill(agent := holder_of(lock), signal.SIGKILL)
    until(lambda: held_by_another(lock, agent))
    site.release("did-1")
    until(lambda: is_at(2))  # Of a second attempt if the next agent came too late for the lease.
    site.release("did-2", "did-3", "did-4")
    (ended,) = live.ended(job)
    assert ended.state is State.SUCCEEDED
    assert ended.progress is not None
    assert (ended.progress.step, ended.progress.loss) == (4, 0.25)
