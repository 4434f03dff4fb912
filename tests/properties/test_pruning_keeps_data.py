"""Whatever jobs leave behind: pruning removes output, never checkpoints, and follows no link."""

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.core.launch import AttemptId, Launch
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.checkpoint_folders import CheckpointFolders
from treadle.engines.node.leftovers import DEPTH_MAX, LeftoverFolders

NAMES = st.sampled_from(["a", ".hidden", "b.pt", "..data", "stdout.0", "x y", "ü"])
LEAVES = st.sampled_from(["file", "empty file", "link to folder", "link to file", "broken", "fifo"])
TREES = st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=8)
FOLDERS = st.dictionaries(NAMES, TREES, max_size=3)


def plant(folder: Path, tree: dict[str, object], outside: Path) -> None:
    """Files, links and folders as the tree says; links lead to what must not be touched."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, what in tree.items():
        path = folder / name
        match what:
            case dict():
                plant(path, what, outside)
            case "file":
                path.write_bytes(b"x" * 5000)
            case "empty file":
                path.touch()
            case "link to folder":
                path.symlink_to(outside)
            case "link to file":
                path.symlink_to(outside / "treasure")
            case "broken":
                path.symlink_to("nowhere")
            case _:
                os.mkfifo(path)


def everything(folder: Path) -> dict[str, bytes | str]:
    """What is there, without following links."""
    found: dict[str, bytes | str] = {}
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(where) / name
            key = str(path.relative_to(folder))
            if path.is_symlink():
                found[key] = f"link to {path.readlink()}"
            elif path.is_file():
                found[key] = path.read_bytes()
            else:
                found[key] = "folder" if path.is_dir() else "other"
    return found


@settings(max_examples=60, deadline=None)
@given(output=FOLDERS, checkpoints=FOLDERS)
def test_pruning_removes_output_and_nothing_that_holds_data(
    output: dict[str, object], checkpoints: dict[str, object]
) -> None:
    with TemporaryDirectory() as name:
        root, outside = Path(name) / "state", Path(name) / "outside"
        outside.mkdir()
        (outside / "treasure").write_bytes(b"gold")
        attempts, kept = AttemptFolders(root), CheckpointFolders(root)
        plant(attempts.make("7", 1, action=3), output, outside)
        attempts.forget("7", 1)
        plant(kept.path("7"), checkpoints, outside)
        before = everything(kept.path("7"))
        leftovers = LeftoverFolders(attempts, kept)

        measured = leftovers.tidy("7")
        removed = leftovers.discard("7")

        assert everything(outside) == {"treasure": b"gold"}
        assert kept.path("7").exists() == bool(before), "only an empty folder goes"
        assert everything(kept.path("7")) == before
        assert measured.checkpoint_folders == (not before)
        assert attempts.attempts("7") == []
        assert removed.attempts == 1
        assert removed.bytes == measured.bytes, "as much as was said in advance"


def test_an_attempt_whose_end_was_not_seen_is_left_alone(tmp_path: Path) -> None:
    attempts, kept = AttemptFolders(tmp_path), CheckpointFolders(tmp_path)
    (attempts.make("7", 1, action=3) / "stdout.0").write_text("still running")
    assert LeftoverFolders(attempts, kept).discard("7").attempts == 0
    assert attempts.attempts("7") == [AttemptId("7", 1)]


def test_a_checkpoint_folder_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    attempts, kept = AttemptFolders(tmp_path / "state"), CheckpointFolders(tmp_path / "state")
    (tmp_path / "mine").mkdir()
    kept.path("7").parent.mkdir()
    kept.path("7").symlink_to(tmp_path / "mine")
    assert LeftoverFolders(attempts, kept).tidy("7").checkpoint_folders == 0
    assert (tmp_path / "mine").is_dir()
    assert kept.path("7").is_symlink()


def test_an_attempt_folder_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    attempts, kept = AttemptFolders(tmp_path / "state"), CheckpointFolders(tmp_path / "state")
    target = tmp_path / "mine" / "1"
    target.mkdir(parents=True)
    (target / "thesis.tex").write_text("years")
    attempts.path("7", 1).parent.symlink_to(tmp_path / "mine")
    LeftoverFolders(attempts, kept).discard("7")
    assert (target / "thesis.tex").read_text() == "years"


def test_a7_what_is_mounted_in_a_folder_of_a_job_stays(tmp_path: Path) -> None:
    """A bind mount of the same disk looks like any other folder."""
    attempts, kept = AttemptFolders(tmp_path / "state"), CheckpointFolders(tmp_path / "state")
    folder = attempts.make("7", 1, action=3)
    attempts.forget("7", 1)
    mine, point = tmp_path / "mine", folder / "data"
    for path in (mine, point):
        path.mkdir()
    (mine / "thesis.tex").write_text("years")
    done = subprocess.run(["mount", "--bind", mine, point], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr!r}")
    try:
        LeftoverFolders(attempts, kept).discard("7")
    finally:
        subprocess.run(["umount", point], check=True)
    assert (mine / "thesis.tex").read_text() == "years"


def test_folders_nested_too_deep_stay_and_what_is_above_goes(tmp_path: Path) -> None:
    attempts, kept = AttemptFolders(tmp_path), CheckpointFolders(tmp_path)
    folder = attempts.make("7", 1, action=3)
    attempts.forget("7", 1)
    (folder / "stdout.0").write_text("text")
    deep = folder.joinpath(*["d"] * (DEPTH_MAX + 2))
    deep.mkdir(parents=True)
    assert LeftoverFolders(attempts, kept).discard("7").attempts == 0
    assert not (folder / "stdout.0").exists()
    assert deep.is_dir()


def test_a_checkpoint_folder_is_made_for_a_job_again_after_it_was_removed(tmp_path: Path) -> None:
    attempts, kept = AttemptFolders(tmp_path), CheckpointFolders(tmp_path)
    launch = Launch(job="7", attempt=1, command=("true",), workdir="/", ranks=1)
    folder = kept.make(launch)
    assert LeftoverFolders(attempts, kept).tidy("7").checkpoint_folders == 1
    assert not folder.exists()
    assert kept.make(launch).is_dir()
