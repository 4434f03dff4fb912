"""Files that appear whole or not at all."""

import os
import stat
import threading
from pathlib import Path

import pytest

from treadle.files import create, obstacle, replace, replacing, writing


def test_a_reader_sees_the_old_content_until_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    replace(path, b"old")
    with replacing(path, sync=True) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert _names(tmp_path) == ["a"]


def test_a_block_that_raises_leaves_the_old_content_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "a"
    replace(path, b"old")
    with pytest.raises(ValueError, match="not today"):
        _write_and_fail(path)
    assert path.read_bytes() == b"old"
    assert _names(tmp_path) == ["a"]


def test_the_mode_is_that_of_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"open to all")
    replace(path, b"secret", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"keep")
    link.symlink_to(target)
    replace(link, b"new")
    assert (target.read_bytes(), link.is_symlink()) == (b"keep", False)


def test_the_longest_name_still_has_room_for_a_draft(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    replace(path, b"x")
    assert path.read_bytes() == b"x"


def test_a_named_draft_that_a_crash_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.unfinished").write_bytes(b"half of something longer")
    with replacing(tmp_path / "a", draft="a.unfinished") as file:
        file.write(b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert _names(tmp_path) == ["a"]


def test_create_never_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert create(path, b"first", mode=0o600)
    assert not create(path, b"second", mode=0o600)
    assert path.read_bytes() == b"first"
    assert _names(tmp_path) == ["key"]


def test_a_pipe_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with writing(pipe) as file:
        file.write(b"through")
    reader.join(timeout=10)
    assert (read, stat.S_ISFIFO(pipe.stat().st_mode)) == ([b"through"], True)


def _write_and_fail(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"new")
        raise ValueError("not today")


def test_an_obstacle_is_found_before_anything_is_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    nowhere = tmp_path / "nowhere"
    assert [obstacle(path) for path in (file, tmp_path / "new", Path("/dev/null"))] == [""] * 3
    assert obstacle(tmp_path) == "it is a directory; name a file in it"
    assert obstacle(nowhere / "a") == f"directory {nowhere} does not exist"
    assert obstacle(file / "a") == f"{file} is not a directory"
    assert obstacle(file / "b" / "a") == f"directory {file}/b cannot exist, {file} is a file"
    assert obstacle(tmp_path / ("a" * 300)) == "file name too long"


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())
