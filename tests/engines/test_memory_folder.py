"""Folders of members: made for one user, removed with the attempt, also after a kill."""

from pathlib import Path

import pytest

from treadle.engines.node import memory_folder
from treadle.engines.node.memory_folder import MemoryFolder


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders are made here."""
    monkeypatch.setattr(memory_folder, "MEMORY", str(tmp_path))
    return tmp_path


def made_of(tag: str) -> MemoryFolder:
    folders = MemoryFolder(tag, None, None)
    folders.make()
    return folders


def test_a_folder_goes_with_all_that_is_in_it(places: Path) -> None:
    made = made_of("i-1-2")
    Path(made.path, "state").mkdir()
    Path(made.path, "state", "part").write_text("x")
    assert Path(made.path).stat().st_mode & 0o777 == 0o700
    made.remove()
    assert not list(places.iterdir())


def test_before_a_member_speaks_there_is_none(places: Path) -> None:
    named = MemoryFolder("i-1-2", None, None)
    named.remove()
    assert not list(places.iterdir())


def test_what_a_killed_supervisor_left_is_found_by_its_tag() -> None:
    left, other = (made_of(tag) for tag in ("i-1-2", "i-1-23"))
    memory_folder.remove_of("i-1-2")
    assert not Path(left.path).exists()
    assert Path(other.path).exists()


def test_a_sweep_keeps_the_living_and_what_belongs_to_others(places: Path) -> None:
    dead, alive, foreign = (made_of(tag) for tag in ("here-1-1", "here-2-1", "there-1-1"))
    (places / "treadle-group-here-3-1.x").symlink_to(places)
    memory_folder.sweep("here-", keep=["here-2-1"])
    assert not Path(dead.path).exists()
    assert Path(alive.path).exists()
    assert Path(foreign.path).exists()
    assert places.exists(), "a link is not followed"


def test_a_machine_without_memory_folders_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_folder, "MEMORY", "/nowhere")
    assert not Path(made_of("i-1-1").path).exists()
