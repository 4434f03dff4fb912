"""Folders of members: made for one user, removed with the attempt, also after a kill."""

from pathlib import Path

import pytest

from treadle.engines.node import member_folders
from treadle.engines.node.member_folders import MemberFolders


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both kinds of folders are made here."""
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(member_folders, "MEMORY", str(tmp_path / "memory"))
    monkeypatch.setattr(member_folders, "FILES", str(tmp_path))
    return tmp_path


def made_of(tag: str) -> MemberFolders:
    folders = MemberFolders(tag, None, None)
    folders.make()
    return folders


def test_both_folders_go_with_all_that_is_in_them(places: Path) -> None:
    made = made_of("i-1-2")
    Path(made.memory, "state").mkdir()
    Path(made.memory, "state", "part").write_text("x")
    Path(made.groups, "group-1").write_text("x")
    assert Path(made.groups).stat().st_mode & 0o777 == 0o700
    made.remove()
    assert [path.name for path in places.iterdir()] == ["memory"]
    assert not list((places / "memory").iterdir())


def test_before_a_member_speaks_there_is_none(places: Path) -> None:
    named = MemberFolders("i-1-2", None, None)
    named.remove()
    assert [path.name for path in places.iterdir()] == ["memory"]
    assert not list((places / "memory").iterdir())


def test_what_a_killed_supervisor_left_is_found_by_its_tag() -> None:
    left, other = (made_of(tag) for tag in ("i-1-2", "i-1-23"))
    member_folders.remove_of("i-1-2")
    assert not Path(left.groups).exists()
    assert not Path(left.memory).exists()
    assert Path(other.groups).exists()


def test_a_sweep_keeps_the_living_and_what_belongs_to_others(places: Path) -> None:
    dead, alive, foreign = (made_of(tag) for tag in ("here-1-1", "here-2-1", "there-1-1"))
    (places / "treadle-group-here-3-1.x").symlink_to(places)
    member_folders.sweep("here-", keep=["here-2-1"])
    assert not Path(dead.groups).exists()
    assert Path(alive.groups).exists()
    assert Path(foreign.groups).exists()
    assert places.exists(), "a link is not followed"


def test_a_machine_without_memory_folders_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_folders, "MEMORY", "/nowhere")
    assert not Path(made_of("i-1-1").memory).exists()
