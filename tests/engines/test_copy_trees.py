"""Folders that are listed, sent in pieces and put in their place, whatever their owner does."""

import os
from pathlib import Path

import pytest

from treadle.core.errors import EngineError
from treadle.engines.agent import wire
from treadle.engines.agent.copies.incoming import Incoming, Owner, digest
from treadle.engines.agent.copies.tree import (
    LISTING_BYTES_MAX,
    ChangedError,
    Entry,
    Listing,
    UncopyableError,
    listing,
    read,
)
from treadle.engines.clusters.ray.frames import BYTES_MAX

OWNER = Owner()


def fill(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def send(source: Path, incoming: Incoming, found: Listing, *, files: int = 1000) -> list[str]:
    """Send what is missing, so many files at most, three bytes at a time; the paths sent."""
    missing = incoming.expect(found.entries)[:files]
    for entry in missing:
        for offset in range(0, max(1, entry.size), 3):
            data = read(source, entry, offset, 3)
            incoming.write(entry, offset, data, digest(data), OWNER)
    return [entry.path for entry in missing]


def test_a_file_that_changed_on_another_node_is_said_to_have_changed() -> None:
    """Of other errors nobody would say that the folder changes all the time."""
    with pytest.raises(ChangedError, match="'w' was changed"):
        wire.opened(wire.refusal(ChangedError("'w' was changed")), bytes)


def test_a_copy_has_files_folders_links_modes_and_times(tmp_path):
    source = fill(tmp_path / "source", weights="1234567", empty="")
    fill(source / "deep" / "er", state="x")
    (source / "void").mkdir()
    (source / "latest").symlink_to("deep/er/state")
    (source / "deep" / "up").symlink_to("../weights")
    (source / "weights").chmod(0o640)
    os.utime(source / "weights", ns=(5, 1_234_567_891_234_567_891))
    found, incoming = listing(source), Incoming(tmp_path / "place")
    assert send(source, incoming, found) == ["deep/er/state", "empty", "weights"]
    incoming.commit(found.entries, OWNER)
    assert listing(tmp_path / "place") == found
    assert (tmp_path / "place" / "latest").read_text() == "x"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_is_there_already_is_not_sent_and_what_is_gone_goes(tmp_path):
    source, incoming = fill(tmp_path / "source", a="aa", b="bb"), Incoming(tmp_path / "place")
    send(source, incoming, listing(source))
    incoming.commit(listing(source).entries, OWNER)
    (source / "a").unlink()
    fill(source, c="cc")
    found = listing(source)
    assert send(source, incoming, found) == ["c"]
    incoming.commit(found.entries, OWNER)
    assert sorted(path.name for path in (tmp_path / "place").iterdir()) == ["b", "c"]


def test_what_is_cut_off_halfway_leaves_the_old_folder_and_goes_on_later(tmp_path):
    source = fill(tmp_path / "source", a="aaaa", b="bbbb")
    place = fill(tmp_path / "place", old="state")
    incoming, found = Incoming(place), listing(source)
    assert send(source, incoming, found, files=1) == ["a"]
    entry = found.entries[1]
    incoming.write(entry, 0, b"bbb", digest(b"bbb"), OWNER)
    with pytest.raises(EngineError, match="'b' has not come yet"):
        incoming.commit(found.entries, OWNER)
    assert [path.name for path in place.iterdir()] == ["old"]
    again = Incoming(place)  # as after a crash of the agent
    assert send(source, again, found) == ["b"]
    again.commit(found.entries, OWNER)
    assert listing(place) == found


def test_a_crash_between_old_and_new_folder_loses_neither(tmp_path):
    place = fill(tmp_path / "place", old="state")
    place.rename(tmp_path / ".outgoing-place")
    Incoming(place).recover()
    assert (place / "old").read_text() == "state"


def test_pieces_that_are_damaged_missing_or_too_long_are_refused(tmp_path):
    source, incoming = fill(tmp_path / "source", a="aaaa"), Incoming(tmp_path / "place")
    (entry,) = incoming.expect(listing(source).entries)
    with pytest.raises(EngineError, match="arrived damaged"):
        incoming.write(entry, 0, b"aaXa", digest(b"aaaa"), OWNER)
    with pytest.raises(EngineError, match="is missing"):
        incoming.write(entry, 2, b"aa", digest(b"aa"), OWNER)
    with pytest.raises(EngineError, match="no such piece"):
        incoming.write(entry, 0, b"aaaaa", digest(b"aaaaa"), OWNER)
    incoming.write(entry, 0, b"aaaa", digest(b"aaaa"), OWNER)
    incoming.write(entry, 0, b"aaaa", digest(b"aaaa"), OWNER)  # Its answer was lost.


def test_a_file_that_changes_while_it_is_sent_is_noticed(tmp_path):
    source = fill(tmp_path / "source", a="aaaa")
    (entry,) = listing(source).entries
    (source / "a").write_text("bbbbb")
    with pytest.raises(ChangedError, match="'a' was changed"):
        read(source, entry, 0, 4)
    (source / "a").unlink()
    (source / "a").symlink_to("/etc/passwd")
    with pytest.raises(ChangedError, match="cannot be read any more"):
        read(source, entry, 0, 4)


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "a/../../x", "a/../x", ""])
def test_links_that_lead_out_are_refused(tmp_path, target):
    with pytest.raises(UncopyableError, match="leads out of the folder"):
        Entry(path="link", kind="link", link=target)
    if target:
        source = fill(tmp_path / "source")
        (source / "link").symlink_to(target)
        with pytest.raises(UncopyableError, match="the link 'link' leads out"):
            listing(source)


@pytest.mark.parametrize("path", ["", "/a", "../a", "a/../b", "a//b", ".", "a\0b", "a" * 2000])
def test_paths_that_lead_out_are_refused(path):
    with pytest.raises(UncopyableError, match="is not a path within a folder"):
        Entry(path=path)


def test_pipes_and_odd_names_are_refused(tmp_path):
    source = fill(tmp_path / "pipes")
    os.mkfifo(source / "pipe")
    with pytest.raises(UncopyableError, match="'pipe' is neither a file nor a folder nor a link"):
        listing(source)
    odd = fill(tmp_path / "odd")
    Path(os.fsdecode(bytes(odd) + b"/\xff")).touch()
    with pytest.raises(UncopyableError, match="is not UTF-8"):
        listing(odd)


def test_names_that_are_too_long_for_one_message_are_refused(tmp_path):
    """All files and links may be few enough, and their names too much."""
    assert 4 * LISTING_BYTES_MAX < BYTES_MAX, "a message may name everything twice, and answer"
    source, target = fill(tmp_path / "source"), "/".join(["x" * 250] * 4)
    for number in range(LISTING_BYTES_MAX // 1000):
        (source / f"{number}").symlink_to(target)
    with pytest.raises(UncopyableError, match="names of its files and links are too long"):
        listing(source)


def test_a_draft_in_which_a_link_is_in_the_place_of_a_folder_is_used(tmp_path):
    """1. A copy broke off when its links were made. 2. What was a link is a folder by then."""
    source, incoming = fill(tmp_path / "source", a="a"), Incoming(tmp_path / "place")
    send(source, incoming, listing(source))
    (tmp_path / ".incoming-place" / "tree" / "now").symlink_to(tmp_path)
    fill(source / "now", b="b")
    found = listing(source)
    send(source, incoming, found)
    incoming.commit(found.entries, OWNER)
    assert listing(tmp_path / "place") == found
    assert not (tmp_path / "b").exists()


def test_more_files_than_the_limit_are_refused(tmp_path):
    source = fill(tmp_path / "source", a="", b="", c="")
    assert len(listing(source, files_max=3).entries) == 3
    with pytest.raises(UncopyableError, match="more than 2 files"):
        listing(source, files_max=2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads files of others")
def test_root_copies_no_file_of_another_user(tmp_path):
    """A user links a file of another one into a folder: the copy would be readable."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    source = fill(tmp_path / "source", own="x")
    for path in (source, source / "own"):
        os.chown(path, 12345, 12345)
    assert len(listing(source).entries) == 1
    (source / "stolen").hardlink_to(secret)
    with pytest.raises(UncopyableError, match="'stolen' belongs to another user"):
        listing(source)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_copy_belongs_to_the_user_of_the_job(tmp_path):
    source, incoming = fill(tmp_path / "source", a="aa"), Incoming(tmp_path / "place")
    fill(source / "deep", b="b")
    found, owner = listing(source), Owner(12345, 54321)
    for entry in incoming.expect(found.entries):
        data = read(source, entry, 0, entry.size)
        incoming.write(entry, 0, data, digest(data), owner)
    incoming.commit(found.entries, owner)
    place = tmp_path / "place"
    for path in (place, place / "a", place / "deep", place / "deep" / "b"):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)
