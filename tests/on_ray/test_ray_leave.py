"""`python -m treadle.engines.ray leave`: what it removes, and what it says where it cannot."""

import os
import subprocess
import sys
from pathlib import Path

from tests.on_ray.cluster import RayCluster
from treadle.engines.ray.head import stop

REFUSED = 2
# A node is reserved; the others are not managed, as one that has another node's name.
RESERVE = """
import sys
from treadle.engines.ray import cluster

cluster.connect(sys.argv[1])
assert cluster.is_reserved(cluster.reserve(cluster.nodes()[0], None), within_s=30)
"""


def ran(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def leave(where: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return ran("-m", "treadle.engines.ray", "leave", where, **variables)


def test_nodes_are_counted_of_which_something_was_removed(ray_nodes: RayCluster) -> None:
    assert leave(ray_nodes.address, **ray_nodes.environment).returncode == 0
    reserved = ran("-c", RESERVE, ray_nodes.address, **ray_nodes.environment)
    assert reserved.returncode == 0, reserved.stderr
    done = leave(ray_nodes.address, **ray_nodes.environment)
    assert done.stdout == "agents and reservations of 1 node were removed\n", done.stderr
    done = leave(ray_nodes.address, **ray_nodes.environment)
    assert done.stdout == "agents and reservations of 0 nodes were removed\n", done.stderr


def test_a_wrong_token_is_one_sentence(ray_nodes: RayCluster) -> None:
    own = {**ray_nodes.environment, "RAY_AUTH_TOKEN": "another-token" * 4}
    done = leave(ray_nodes.address, **own)
    assert done.returncode == REFUSED
    assert done.stderr.startswith("treadle: the Ray cluster at ")
    assert done.stderr.count("\n") == 1


def test_nothing_is_started_in_place_of_a_cluster_that_does_not_answer() -> None:
    done = leave("127.0.0.1:1")
    assert done.returncode == REFUSED
    assert done.stderr == ("treadle: no Ray cluster answers at 127.0.0.1:1 (connection refused)\n")


def test_a_folder_without_a_head_of_its_own(tmp_path: Path) -> None:
    """1. Its cluster is another's. 2. Its own head was ended before."""
    done = leave(str(tmp_path))
    assert done.returncode == REFUSED
    assert done.stderr == (
        f"treadle: {tmp_path} has no Ray head of its own; agents and reservations in another "
        "cluster stay: python -m treadle.engines.ray leave HOST:PORT, of its head, removes them\n"
    )
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "token").touch()
    assert not stop(tmp_path / "ray")
    done = leave(str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "the head was ended before\n")
