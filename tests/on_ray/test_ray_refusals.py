"""`treadle up --engine ray` refuses in one sentence what cannot work."""

import os
import subprocess
import sys
from pathlib import Path

from tests.on_ray.cluster import RayCluster, environment
from tests.shared import thorough

pytestmark = thorough  # each starts a daemon that loads Ray

REFUSED = 2
PATIENCE_S = 180.0  # It never hangs; imports take their time on a busy machine.


def up(tmp_path: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "treadle", "up", "--foreground", "--no-port"]
    command += ["--state", str(tmp_path / "state"), "--socket", str(tmp_path / "s"), *words]
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert "Traceback" not in done.stderr
    return done


def test_without_ray_it_says_what_to_install(tmp_path: Path) -> None:
    without = "import sys; sys.modules['ray'] = None"  # As if it were not there.
    (tmp_path / "sitecustomize.py").write_text(without)
    done = up(tmp_path, "--engine", "ray", PYTHONPATH=str(tmp_path))
    assert done.returncode == REFUSED
    assert done.stderr.splitlines()[-1] == (
        "treadle: the engine ray needs Ray, which is not installed; pip install 'treadle[ray]'"
    )


def test_an_address_without_an_engine_of_a_cluster(tmp_path: Path) -> None:
    done = up(tmp_path, "--address", "127.0.0.1:1")
    assert done.returncode == REFUSED
    assert "--address is for an engine of a cluster, such as --engine ray" in done.stderr


def test_a_wrong_token(tmp_path: Path, ray_nodes: RayCluster) -> None:
    words = ("--engine", "ray", "--address", ray_nodes.address)
    own = {**environment(ray_nodes.folder), "RAY_AUTH_TOKEN": "another-token" * 4}
    done = up(tmp_path, *words, **own)
    assert done.returncode == REFUSED
    assert done.stderr.splitlines()[-1] == (
        f"treadle: the Ray cluster at {ray_nodes.address} refused the token; set "
        "RAY_AUTH_MODE=token and the token of the cluster in RAY_AUTH_TOKEN, or its file in "
        "RAY_AUTH_TOKEN_PATH"
    )
