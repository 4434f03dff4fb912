"""Unlike nodes on a real Ray cluster: jobs get the types that they ask for, and no others."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.daemons import Daemon, daemon
from tests.on_ray.cluster import ray_cluster
from tests.shared import thorough
from treadle.wire.jobs import State

# n0 has three devices, n1 and n2 two each; n3, with the head, two CPU slots.
TYPES = {"n0": "NVIDIA-H200", "n1": "NVIDIA-A100-80GB", "n2": "NVIDIA-A100-80GB"}


class Site:
    """A daemon on a Ray cluster of unlike nodes, and its user."""

    def __init__(self, live: Daemon, folder: Path) -> None:
        self.live, self.folder = live, folder

    def treadle(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "treadle", *words],
            env={**os.environ, "TREADLE_SOCKET": str(self.live.socket), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
        )

    def submit(self, name: str, *words: str) -> str:
        """A job that runs until a file of its name is there."""
        wait = 'while test ! -e "$0"; do sleep 0.1; done'
        command = ("sh", "-c", wait, str(self.folder / name))
        done = self.treadle("submit", "--quiet", "--name", name, *words, "--", *command)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def runs_on(self, job: str) -> set[str]:
        self.live.reached(State.RUNNING, job)
        return {device.partition(":")[0] for device in self.live.view(job).devices}

    def release(self, name: str, job: str) -> None:
        (self.folder / name).touch()
        assert self.live.ended(job)[0].state is State.SUCCEEDED


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    with ray_cluster(TYPES) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        with daemon("--engine", "ray", "--address", cluster.address, "--no-port") as found:
            yield Site(found, tmp_path)


@thorough
def test_a_day_on_unlike_nodes(site: Site) -> None:
    """1. Types are listed. 2. A type that there is not is refused. 3. Jobs run on their types.
    4. One waits for its type beside free devices, and is told why. 5. A job of no type keeps to
    GPUs of one type, and waits beside free CPU slots. 6. What was waited for comes free.
    """
    listed = site.treadle("nodes").stdout
    assert "n0: 3 x NVIDIA-H200" in listed
    assert "n3: 2 x cpu" in listed

    wrong = site.treadle("submit", "--device-type", "h20O", "--", "true")
    assert wrong.returncode == 2
    assert (
        "the job can never run here: it asks for 1 device of type h20o, and there are none; the "
        "types here are"
    ) in wrong.stderr
    assert "NVIDIA-A100-80GB" in wrong.stderr

    first = site.submit("first", "--device-type", "h200", "--devices", "2")
    assert site.runs_on(first) == {"n0"}
    slot = site.submit("slot", "--device-type", "cpu")
    assert site.runs_on(slot) == {"n3"}

    second = site.submit("second", "--device-type", "H200", "--devices", "2")
    told = json.loads(site.treadle("why", second, "--json").stdout)
    assert told["code"] == "type"
    assert (told["numbers"]["free"], told["numbers"]["total"]) == (1, 3)

    plain = site.submit("plain", "--devices", "4")
    assert site.runs_on(plain) == {"n1", "n2"}
    small = site.submit("small")
    assert site.runs_on(small) == {"n0"}
    other = site.submit("other")
    told = json.loads(site.treadle("why", other, "--json").stdout)
    assert told["numbers"]["free"] == 0
    assert "device type" in site.treadle("describe", second).stdout

    site.release("small", small)
    site.release("first", first)
    assert site.runs_on(second) == {"n0"}
    assert site.runs_on(other) == {"n0"}
    for name, job in (("slot", slot), ("second", second), ("plain", plain), ("other", other)):
        site.release(name, job)
