"""Checkpoints that were cut short, damaged, or met a full disk."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from treadle.train.checkpoint import Checkpoints


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path, keep=3)


def test_the_newest_comes_back_and_only_the_last_few_are_kept(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    for step in range(5):
        checkpoints.save(step, {"step": step, "weight": torch.full((3,), float(step))})
    found = checkpoints.load()
    assert found["step"] == 4
    assert found["weight"].tolist() == [4.0, 4.0, 4.0]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("cut", [1, 20, 60, 400])
def test_a_truncated_one_is_passed_over(checkpoints: Checkpoints, cut: int, capfd) -> None:
    checkpoints.save(1, {"step": 1})
    path = checkpoints.save(2, {"step": 2, "weight": torch.zeros(100)})
    path.write_bytes(path.read_bytes()[:-cut])
    assert checkpoints.load() == {"step": 1}
    assert "checkpoint-000000000002 is passed over: it is truncated" in capfd.readouterr().err


def test_a_damaged_one_is_passed_over(checkpoints: Checkpoints, capfd) -> None:
    checkpoints.save(1, {"step": 1})
    path = checkpoints.save(2, {"step": 2, "weight": torch.zeros(100)})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert checkpoints.load() == {"step": 1}
    assert "it is damaged" in capfd.readouterr().err


def test_without_any_there_is_nothing_to_resume(checkpoints: Checkpoints) -> None:
    assert checkpoints.load() is None


def test_a_full_disk_keeps_the_old_one_and_leaves_no_draft(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    """The limit of the size of files stands for the disk: the write fails in its middle."""
    checkpoints.save(1, {"step": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError):
            checkpoints.save(2, {"step": 2, "weight": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert checkpoints.load() == {"step": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-000000000001"]


OWN_LOOP = """
import os, sys
import treadle.train as train
saved = train.resumed() or {"step": 0}
print("from", saved["step"], flush=True)
for step in range(saved["step"], 1000000):
    if step == 3:
        print("running", flush=True)
    if train.should_stop():
        with train.checkpoint() as c:
            c["step"] = step
        assert "torch" not in sys.modules
        train.leave()
"""


def test_a_loop_of_its_own_stops_and_resumes_without_torch_or_signal_handling(
    tmp_path: Path,
) -> None:
    env = {"TREADLE_CHECKPOINT_DIR": str(tmp_path / "kept"), "PATH": "/usr/bin:/bin"}
    starts = []
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", OWN_LOOP], env=env, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            starts.append(process.stdout.readline())
            if len(starts) == 1:
                assert process.stdout.readline() == "running\n"
            process.terminate()
            code = process.wait(30)
        if len(starts) == 1:
            assert code == 143
    assert starts[0] == "from 0\n"
    assert int(starts[1].split()[1]) >= 3


def test_a_block_that_raises_saves_nothing(tmp_path: Path, monkeypatch) -> None:
    from treadle import train

    monkeypatch.setenv("TREADLE_CHECKPOINT_DIR", str(tmp_path))

    def save() -> None:
        with train.checkpoint() as content:
            content["step"] = 1 // 0

    with pytest.raises(ZeroDivisionError):
        save()
    assert train.resumed() is None
