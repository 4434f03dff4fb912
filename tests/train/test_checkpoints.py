"""Checkpoints that were cut short, damaged, or met a full disk."""

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from treadle.train.checkpoint import Checkpoints
from treadle.train.checkpoint_writer import CheckpointWriter


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


@pytest.mark.parametrize("cut", [1, 400])
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_one_that_another_user_put_there_is_not_unpickled(
    checkpoints: Checkpoints, tmp_path: Path, capfd, mode: int
) -> None:
    checkpoints.save(1, {"step": 1})
    path = checkpoints.save(2, {"step": 2})
    os.chown(path, 12345, -1)
    assert checkpoints.load() == {"step": 2}  # None but its own user can write to the folder.
    tmp_path.chmod(mode)
    assert checkpoints.load() == {"step": 1}
    assert "checkpoint-000000000002 is passed over: it belongs to another user" in (
        capfd.readouterr().err
    )


def test_a_pipe_in_the_place_of_one_is_not_waited_for(
    checkpoints: Checkpoints, tmp_path: Path, capfd
) -> None:
    checkpoints.save(1, {"step": 1})
    os.mkfifo(tmp_path / "checkpoint-000000000002")
    assert checkpoints.load() == {"step": 1}
    assert "it is no file" in capfd.readouterr().err


def test_a_draft_is_not_written_through_a_link(checkpoints: Checkpoints, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("of another")
    (tmp_path / f".checkpoint-{os.getpid()}.part").symlink_to(precious)
    checkpoints.save(1, {"step": 1})
    assert precious.read_text() == "of another"
    assert checkpoints.load() == {"step": 1}


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


# -- a state in parts -----------------------------------------------------------------------------


def _parts(folder: Path, text: str) -> Path:
    """A folder as the ranks of a split model leave it."""
    folder.mkdir()
    (folder / "__0_0.distcp").write_text(text)
    (folder / "__1_0.distcp").write_text(text * 2)
    (folder / ".metadata").write_text("where what is")
    return folder


def test_parts_come_with_the_file_that_names_them(checkpoints: Checkpoints, tmp_path: Path) -> None:
    for step in range(4):
        parts = _parts(tmp_path / "staged", f"step {step}")
        checkpoints.save_parts(step, parts, {"step": step})
        assert not parts.exists()
    found = checkpoints.load()
    folder = checkpoints.parts_of(found)
    assert folder is not None
    assert (folder / "__1_0.distcp").read_text() == "step 3step 3"
    names = sorted(path.name.rpartition("-")[0] for path in tmp_path.iterdir())
    assert names == ["checkpoint"] * 3 + ["parts"] * 3, "those beyond the last few are removed"


@pytest.mark.parametrize("harm", ["cut", "damaged", "missing"])
def test_a_checkpoint_with_a_bad_part_is_passed_over(
    checkpoints: Checkpoints, tmp_path: Path, harm: str, capfd
) -> None:
    for step in (1, 2):
        checkpoints.save_parts(step, _parts(tmp_path / "staged", "content"), {"step": step})
    part = tmp_path / "parts-000000000002" / "__0_0.distcp"
    match harm:
        case "cut":
            part.write_text("conte")
        case "damaged":
            part.write_text("contend")
        case _:
            part.unlink()
    assert checkpoints.load()["step"] == 1
    assert "checkpoint-000000000002 is passed over" in capfd.readouterr().err


def test_a_killed_writer_leaves_nothing_that_counts(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    """It had moved its parts and not written the file; the next checkpoint removes all of it."""
    checkpoints.save(1, {"step": 1})
    _parts(tmp_path / "parts-000000000002", "half")
    _parts(tmp_path / ".parts-1.part", "half")
    (tmp_path / ".checkpoint-1.part").write_text("half")
    assert checkpoints.load() == {"step": 1}
    checkpoints.save(3, {"step": 3})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint-000000000001",
        "checkpoint-000000000003",
    ]


# -- beside the training --------------------------------------------------------------------------


def test_a_slow_disk_does_not_hold_up_the_training(tmp_path: Path) -> None:
    """Its content stands for the disk: the write waits until it is there."""
    checkpoints, arrives = Checkpoints(tmp_path), threading.Event()
    writer = CheckpointWriter(checkpoints)
    writer.write(1, lambda: {"step": 1} if arrives.wait(60) else {})
    assert writer.busy, "the training goes on, and no second one is begun"
    assert writer.taken() is None
    assert checkpoints.load() is None
    arrives.set()
    writer.wait()
    assert not writer.busy
    assert checkpoints.load() == {"step": 1}


def test_what_is_written_is_the_state_of_the_moment_it_was_asked_for(tmp_path: Path) -> None:
    from treadle.train.state import frozen

    weight, history = torch.zeros(3), [1, 2]
    content = frozen({"weight": weight, "again": weight, "history": history})
    weight.fill_(7.0)
    history.append(3)
    found: dict[str, Any] = content()
    assert found["weight"].tolist() == found["again"].tolist() == [0.0, 0.0, 0.0]
    assert found["history"] == [1, 2]


def test_a_full_disk_is_said_and_the_writer_goes_on(tmp_path: Path, capfd) -> None:
    writer = CheckpointWriter(Checkpoints(tmp_path / "kept"))
    (tmp_path / "kept").write_text("no folder can be made here")
    writer.write(5, lambda: {"step": 5})
    writer.wait()
    assert "no checkpoint at step 5: " in capfd.readouterr().err
    (tmp_path / "kept").unlink()
    writer.write(6, lambda: {"step": 6})
    writer.wait()
    assert writer.taken() == 6


# -- scripts that import torch late, or count their steps anew -------------------------------------

READ_FIRST = """
import sys
import treadle.train as train
saved = train.resumed()
assert "torch" in sys.modules or saved is None
import torch
with train.checkpoint() as c:
    c["weight"] = torch.ones(2)
print(saved)
"""


def test_what_was_saved_with_torch_comes_back_to_a_script_that_imports_it_later(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    checkpoints.save(1, {"weight": torch.ones(2)})
    env = {**os.environ, "TREADLE_CHECKPOINT_DIR": str(tmp_path)}
    command = [sys.executable, "-c", READ_FIRST]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tensor([1., 1.])" in done.stdout


def test_a_new_one_stays_although_damaged_ones_have_higher_numbers(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    for step in (1, 8, 9):
        checkpoints.save(step, {"step": step})
    for step in (8, 9):
        (tmp_path / f"checkpoint-{step:012d}").write_text("damaged")
    for step in (2, 3, 4):
        checkpoints.save(step, {"step": step})
        assert checkpoints.load() == {"step": step}
    numbers = sorted(int(path.name.rpartition("-")[2]) for path in tmp_path.iterdir())
    assert numbers == [2, 3, 4, 8, 9]


def test_parts_whose_file_found_no_room_are_removed(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    checkpoints.save_parts(1, _parts(tmp_path / "staged", "content"), {"step": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        for step in (2, 3):
            parts = _parts(tmp_path / "staged", "content")
            with pytest.raises(OSError):
                checkpoints.save_parts(step, parts, {"kept": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.glob("parts-*")] == ["parts-000000000001"]
