"""The same script without Treadle, under torchrun, and as rank processes of a rigid job."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import thorough
from tests.waiting import PATIENCE_S
from treadle.engines.node.environment import free_port

SCRIPT = Path(__file__).parents[2] / "examples" / "elastic_training.py"


def _run(command: list[str], folder: Path, **env: str) -> list[dict[str, float]]:
    """The rows that rank 0 printed."""
    given = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
        "TREADLE_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "PYTHONUNBUFFERED": "1",
        **env,
    }
    done = subprocess.run(
        command,
        env=given,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    folder = tmp_path_factory.mktemp("alone")
    return _run([sys.executable, str(SCRIPT), "2"], folder)


def test_it_runs_alone(alone: list[dict[str, float]]) -> None:
    assert [row["epoch"] for row in alone] == [0, 1]
    assert alone[1]["loss"] < alone[0]["loss"]


@thorough
@pytest.mark.parametrize("plan", ["", "zero-3 x2"])
def test_torchrun_gives_the_same_losses_under_any_plan(
    alone: list[dict[str, float]], tmp_path: Path, plan: str
) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    command = [*torchrun, "--standalone", str(SCRIPT), "2"]
    rows = _run(command, tmp_path, GLOO_SOCKET_IFNAME="lo", TREADLE_PLAN=plan)
    assert [row["epoch"] for row in rows] == [0, 1]
    for ours, theirs in zip(rows, alone, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], abs=1e-5)


def test_a_signal_to_one_rank_stops_all_ranks_with_a_checkpoint(tmp_path: Path) -> None:
    """As ranks of a job without a coordinator: they agree by what travels with the gradients."""
    env = {
        "PATH": os.environ["PATH"],
        "OMP_NUM_THREADS": "1",
        "TREADLE_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), "1000000"],
            env={**env, "RANK": str(rank)},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        assert ranks[0].stdout is not None
        assert ranks[0].stdout.readline().startswith("{")
        ranks[1].terminate()
        assert [rank.wait(PATIENCE_S) for rank in ranks] == [143, 143]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1
