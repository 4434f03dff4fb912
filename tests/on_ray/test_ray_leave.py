"""`leave` of `python -m treadle.engines.clusters.ray`: what it removes, and what it says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import msgspec
import pytest

from tests.on_ray.cluster import RayCluster
from tests.shared import thorough
from treadle.core.errors import InvalidInputError
from treadle.engines.clusters.ray.__main__ import _confirm
from treadle.engines.clusters.ray.head import Head, processes_of, stop

pytestmark = thorough

REFUSED = 2
# A node is reserved; the others are not managed, as one that has another node's name.
RESERVE = """
import sys
from treadle.engines.clusters.ray import cluster

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


def leave(where: str, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return ran("-m", "treadle.engines.clusters.ray", "leave", where, *words, **variables)


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
        "cluster stay: python -m treadle.engines.clusters.ray leave HOST:PORT, of its head, "
        "removes them\n"
    )
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "token").touch()
    assert stop(tmp_path / "ray") is None
    done = leave(str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "the head was ended before\n")


def recorded(state: Path, folder: Path) -> Head:
    """A record of a head whose files are said to be in that folder."""
    made = Head(address="127.0.0.1:1", token=str(state / "ray" / "token"), folder=str(folder))
    (state / "ray").mkdir(parents=True)
    (state / "ray" / "token").touch()
    (state / "ray" / "head.json").write_bytes(msgspec.json.encode(made))
    return made


def test_a_record_that_names_another_folder_is_not_believed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    recorded(tmp_path / "state", victim)
    done = leave(str(tmp_path / "state"))
    assert done.returncode == REFUSED
    assert done.stderr == (
        f"treadle: the record of the head names {victim}, which is no folder that Treadle makes "
        "for Ray; nothing was ended\n"
    )
    assert victim.is_dir()


def test_only_programs_of_ray_are_ended_and_what_is_said_is_true() -> None:
    """A pager on Ray's log is left alone."""
    state, folder = Path(mkdtemp(prefix="treadle-")), Path(mkdtemp(prefix="treadle-ray-"))
    (folder / "log").touch()
    reader = subprocess.Popen(["tail", "-f", str(folder / "log")])
    try:
        made = recorded(state / "s", folder)
        assert processes_of(made) == []
        done = leave(str(state / "s"))
        assert done.stdout == "no process of the head was left; its files were removed\n"
        assert reader.poll() is None
        assert not folder.exists()
    finally:
        reader.kill()
        reader.wait()
        shutil.rmtree(state)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_head_of_another_user_is_left_alone(tmp_path: Path) -> None:
    folder = Path(mkdtemp(prefix="treadle-ray-"))
    try:
        recorded(tmp_path, folder)
        os.chown(tmp_path / "ray" / "head.json", 65534, 65534)
        done = leave(str(tmp_path))
        assert done.returncode == REFUSED
        assert "belongs to user 65534, and this is user 0" in done.stderr
        assert folder.is_dir()
    finally:
        folder.rmdir()


# -- jobs that run --------------------------------------------------------------------------------


def test_jobs_are_named_and_not_killed_by_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    _confirm([{}, {}], yes=False)
    with pytest.raises(InvalidInputError, match="2 jobs with 9 ranks run there and are killed in"):
        _confirm([{"1": 4, "2": 1}, {"1": 4}], yes=False)
    _confirm([{"1": 1}], yes=True)
    assert capsys.readouterr().out == "1 job with 1 rank runs there and is killed in 5 s\n"
