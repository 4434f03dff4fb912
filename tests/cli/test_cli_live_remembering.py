"""What is kept of the last `treadle up`."""

import os

import pytest
from tests.cli.live_session import ValueClient, treadle

from treadle.cli.live.saved_options import FILE, Remembered, recall, remember
from treadle.core.errors import InvalidInputError


def test_what_was_kept_comes_back_and_only_its_owner_may_read_it(tmp_path) -> None:
    assert recall(tmp_path) == Remembered((), "")
    remember(tmp_path, ["--devices", "4"], "")
    remember(tmp_path, ["--devices", "8"], "postgresql://me:secret@box/treadle")
    assert recall(tmp_path) == Remembered(("--devices", "8"), "postgresql://me:secret@box/treadle")
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_link_is_neither_followed_nor_written_through(tmp_path) -> None:
    other = tmp_path / "other"
    other.write_text('{"words": ["--admin", "eve"], "store": ""}')
    (tmp_path / FILE).symlink_to(other)
    with pytest.raises(
        InvalidInputError, match="cannot read the options of the last treadle up from"
    ):
        recall(tmp_path)
    remember(tmp_path, [], "x")
    assert "eve" in other.read_text()
    assert recall(tmp_path) == Remembered((), "x")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_not_used(tmp_path) -> None:
    remember(tmp_path, ["--admin", "eve"], "")
    os.chown(tmp_path / FILE, 65_534, -1)
    assert recall(tmp_path) == Remembered((), "")


@pytest.mark.parametrize(
    "content", ["", "[", "[]", "{}", '{"words": 1, "store": ""}', '{"words": [1], "store": ""}']
)
def test_a_file_that_is_damaged_is_said_to_be(tmp_path, content) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(InvalidInputError, match="it is damaged"):
        recall(tmp_path)


def test_options_that_are_no_longer_known_are_said_to_be(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.delenv("TREADLE_URL", raising=False)
    remember(tmp_path, ["--gone", "4"], "")
    assert treadle(ValueClient(), "up", "--state", str(tmp_path)) == 2
    assert "are invalid (No such option" in capsys.readouterr().err
    assert treadle(ValueClient(), "up", "--state", str(tmp_path), "--port", "0") == 0
