"""A file that others lock, a disk without room, a second controller: one sentence, nothing half."""

import os
import signal
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.forked import context
from tests.store.dying import JOIN_S, hold_locked, hold_open, joined
from tests.store.made import JOB, LINE
from treadle.core.errors import InvalidInputError
from treadle.store.errors import StoreError
from treadle.store.rows import Batch
from treadle.store.store import Store

BATCH = Batch(journal=[LINE, LINE], jobs=[JOB])
BIG = Batch(journal=[LINE._replace(body=b'"' + b"x" * 2**20 + b'"')] * 4, jobs=[JOB])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process has the file for itself."""
    ours, theirs = context.Pipe()
    child = context.Process(target=hold_locked, args=(path, theirs))
    child.start()
    try:
        assert ours.poll(JOIN_S)
        assert ours.recv() == "locked"
        yield
    finally:
        ours.send("go")
        assert joined(child) == 0
        ours.close()
        theirs.close()
        child.close()


def test_a_locked_file_is_waited_for(sqlite_url: str, tmp_path: Path) -> None:
    refused = Event()
    begun: list[str] = []

    def hook(point: str) -> None:
        begun.append(point)
        # The third beginning follows the second refusal.
        if begun.count("begin") == 3:
            refused.set()

    with Store.open(sqlite_url, hook=hook) as store:
        written: list[tuple[int, ...]] = []
        thread = Thread(target=lambda: written.append(store.write(BATCH)))
        with locked(tmp_path / "treadle.db"):
            thread.start()
            assert refused.wait(JOIN_S)
            # Those who read do not wait.
            assert store.lines(0) == []
        thread.join()
        assert written == [(1, 2)]


def test_a_file_locked_for_too_long_gets_nothing_and_works_later(
    sqlite_url: str, tmp_path: Path
) -> None:
    with Store.open(sqlite_url, patience_s=0.2) as store:
        with locked(tmp_path / "treadle.db"):
            with pytest.raises(StoreError) as found:
                store.write(BATCH)
            assert str(found.value) == (
                f"cannot write to the store {tmp_path}/treadle.db: database is locked"
            )
            assert found.value.retryable
            assert not found.value.fate_unknown
        assert store.lines(0) == []
        assert store.active() == []
        assert store.write(BATCH) == (1, 2)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "treadle-test", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_gets_nothing_and_works_once_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk, Store.open(f"sqlite:///{disk}/treadle.db") as store:
        assert store.write(BATCH) == (1, 2)
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * 2**20)
        for _ in range(3):
            with pytest.raises(StoreError, match=r"disk is full|disk I/O error") as found:
                store.write(BIG)
            assert found.value.retryable
            assert not found.value.fate_unknown
            assert [row.id for row in store.lines(0)] == [1, 2]
        ballast.unlink()
        assert store.write(BATCH) == (3, 4)
        assert [row.id for row in store.lines(0)] == [1, 2, 3, 4]


def test_a_row_that_the_database_refuses_takes_its_batch_with_it(store: Store) -> None:
    store.write(BATCH)
    twin = JOB._replace(id="twin")
    with pytest.raises(StoreError, match="cannot write to the store") as found:
        store.write(Batch(journal=[LINE], jobs=[twin], settings={"a": "b"}))
    assert not found.value.retryable
    assert store.settings() == {}
    assert store.write(Batch(journal=[LINE])) == (3,)


def test_an_error_of_the_hook_undoes_the_batch(url: str) -> None:
    armed = [False]

    def hook(point: str) -> None:
        if armed[0] and point == "commit":
            raise KeyboardInterrupt

    with Store.open(url, hook=hook) as store:
        armed[0] = True
        with pytest.raises(KeyboardInterrupt):
            store.write(BATCH)
        armed[0] = False
        assert store.lines(0) == []
        assert store.write(BATCH) == (1, 2)


def test_the_refusal_of_a_second_controller_names_the_first(url: str) -> None:
    ours, theirs = context.Pipe()
    child = context.Process(target=hold_open, args=(url, theirs))
    child.start()
    assert ours.poll(JOIN_S)
    pid = ours.recv()
    with pytest.raises(StoreError) as found:
        Store.open(url, lock_wait_s=0)
    assert f"is in use by process {pid}; stop it (treadle down) or" in str(found.value)
    assert not found.value.retryable
    # One that is killed cannot let go, and does not have to.
    child.kill()
    assert joined(child) == -signal.SIGKILL
    child.close()
    ours.close()
    theirs.close()
    with Store.open(url, lock_wait_s=20) as store:
        assert store.write(BATCH) == (1, 2)


def test_a_store_that_was_closed_can_be_opened_at_once_and_not_used(url: str) -> None:
    store = Store.open(url)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.write(BATCH)
    with pytest.raises(StoreError, match="is closed"):
        store.active()
    Store.open(url, lock_wait_s=0).close()


def test_threads_may_write_and_read_at_once(store: Store) -> None:
    def work(number: int) -> None:
        for turn in range(20):
            ids = store.write(Batch(journal=[LINE, LINE], settings={f"{number}": f"{turn}"}))
            assert ids[1] == ids[0] + 1
            assert len(store.lines(ids[0] - 1, limit=2)) == 2

    threads = [Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.id for row in store.lines(0)] == list(range(1, 241))
    assert store.settings() == {f"{number}": "19" for number in range(6)}


def test_the_files_of_a_store_are_for_their_owner_only(sqlite_url: str, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Store.open(sqlite_url) as store:
            store.write(BATCH)
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert set(modes) == {"treadle.db", "treadle.db-wal", "treadle.db-shm", "treadle.db.lock"}
    assert set(modes.values()) == {0o600}


def test_a_file_open_to_others_is_closed_to_them(sqlite_url: str, tmp_path: Path) -> None:
    Store.open(sqlite_url).close()
    (tmp_path / "treadle.db").chmod(0o666)
    Store.open(sqlite_url).close()
    assert stat.S_IMODE((tmp_path / "treadle.db").stat().st_mode) == 0o600


def test_every_commit_is_flushed_to_the_disk(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        store.write(BATCH)
        for engine in (store._backend.writing, store._backend.reading):
            with engine.connect() as connection:
                found = [
                    connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                    for name in ("journal_mode", "synchronous", "foreign_keys")
                ]
                assert found == ["wal", 2, 1]


def test_a_file_of_another_user_is_refused(sqlite_url: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give a file away")
    Store.open(sqlite_url).close()
    os.chown(tmp_path / "treadle.db", 12345, 12345)
    with pytest.raises(InvalidInputError, match="belongs to user id 12345, not to 0"):
        Store.open(sqlite_url)


def test_a_lock_that_is_a_link_is_not_followed(sqlite_url: str, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("keep")
    (tmp_path / "treadle.db.lock").symlink_to(target)
    with pytest.raises(StoreError, match="cannot create the lock"):
        Store.open(sqlite_url)
    assert target.read_text() == "keep"


def test_two_ways_to_one_file_are_one_store(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "treadle.db")
    with (
        Store.open(sqlite_url),
        pytest.raises(StoreError, match=f"in use by process {os.getpid()}"),
    ):
        Store.open(f"sqlite:///{tmp_path}/link.db", lock_wait_s=0)


def test_a_file_that_is_no_database_is_named(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "treadle.db").write_bytes(b"This is a letter to my grandmother. " * 100)
    with pytest.raises(StoreError, match=r"treadle.db: file is not a database") as found:
        Store.open(sqlite_url)
    assert not found.value.retryable
    assert (tmp_path / "treadle.db").read_bytes().startswith(b"This is a letter")


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is not a file"):
        Store.open(f"sqlite:///{tmp_path}")


def test_a_store_removed_while_it_is_open_is_not_made_again(
    sqlite_url: str, tmp_path: Path
) -> None:
    with Store.open(sqlite_url) as store:
        store.write(BATCH)
        (tmp_path / "treadle.db").unlink()
        with pytest.raises(StoreError):
            store.active()
        assert not (tmp_path / "treadle.db").exists()


def test_a_store_with_a_flipped_byte_is_an_error_and_not_another_answer(
    sqlite_url: str, tmp_path: Path
) -> None:
    with Store.open(sqlite_url) as store:
        store.write(BATCH)
    path = tmp_path / "treadle.db"
    content = bytearray(path.read_bytes())
    content[0:16] = b"\0" * 16
    path.write_bytes(content)
    with pytest.raises(StoreError, match="not a database"):
        Store.open(sqlite_url)
    # The lock was let go, so that a mended file opens.
    path.write_bytes(b"SQLite format 3\0" + bytes(content[16:]))
    with Store.open(sqlite_url, lock_wait_s=0) as store:
        assert len(store.lines(0)) == 2
        assert sqlite3.sqlite_version_info >= (3, 24)
