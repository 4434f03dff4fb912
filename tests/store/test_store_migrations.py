"""Tables of older and newer Treadles: upgraded as a whole, or refused with a sentence."""

import shutil
import sqlite3
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import text

from tests.store.made import JOB, LINE
from treadle.store import migrate as migrate_module
from treadle.store.errors import StoreError
from treadle.store.migrate import SCRIPTS, migrate, revision_of, upgrade
from treadle.store.rows import (
    AttemptRow,
    Batch,
    HistoryRow,
    JobRow,
    JournalRow,
    KeyRow,
    ProfileRow,
    TokenRow,
)
from treadle.store.schema import REVISION, REVISION_TABLE, metadata
from treadle.store.store import Store

NEXT = '''
"""A step that a test takes."""
import sqlalchemy as sa
from alembic import op
revision = "{next}"
down_revision = "{newest}"
def upgrade():
    op.add_column("jobs", sa.Column("colour", sa.Text()))
    op.execute("UPDATE jobs SET colour = 'blue'")
    if {fails}:
        op.execute("UPDATE nothing SET x = 1")
'''
FOLLOWING = f"{int(REVISION) + 1:04}"  # a revision that does not exist yet


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("journal", JournalRow),
        ("jobs", JobRow),
        ("profiles", ProfileRow),
        ("history", HistoryRow),
        ("tokens", TokenRow),
        ("keys", KeyRow),
    ],
)
def test_columns_stand_in_the_order_of_the_rows(table: str, row: type) -> None:
    assert tuple(metadata.tables[table].columns.keys()) == row._fields  # type: ignore[attr-defined]


def test_attempts_have_one_column_more_for_sums() -> None:
    assert tuple(metadata.tables["attempts"].columns.keys()) == (
        *AttemptRow._fields,
        "device_count",
    )


def test_the_newest_script_is_the_revision_that_the_schema_names() -> None:
    assert ScriptDirectory(SCRIPTS).get_heads() == [REVISION]


def test_a_store_of_a_newer_treadle_is_refused(url: str) -> None:
    with Store.open(url) as store, store._backend.writing.connect() as connection:
        connection.execute(text(f"UPDATE {REVISION_TABLE} SET version_num = '0999'"))
        connection.commit()
    with pytest.raises(StoreError) as found:
        Store.open(url)
    assert str(found.value).endswith(
        f"was written by a newer Treadle (revision 0999, this one knows {REVISION}); install that "
        "Treadle or "
        "name another store"
    )
    assert not found.value.retryable


def test_a_database_of_another_program_is_left_alone(url: str) -> None:
    with Store.open(url) as store, store._backend.writing.connect() as connection:
        connection.execute(text(f"DROP TABLE {REVISION_TABLE}"))
        connection.commit()
    with pytest.raises(StoreError, match="has a table attempts that Treadle did not make"):
        Store.open(url)


@pytest.fixture
def write_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this a Treadle of the future, with one revision more."""
    folder = tmp_path / "migrations 100%"
    shutil.copytree(SCRIPTS, folder, ignore=shutil.ignore_patterns("__pycache__"))

    def write(*, fails: bool) -> None:
        script = NEXT.format(fails=fails, next=FOLLOWING, newest=REVISION)
        (folder / "versions" / f"{FOLLOWING}_next.py").write_text(script)
        monkeypatch.setattr(migrate_module, "REVISION", FOLLOWING)
        monkeypatch.setattr(migrate_module, "upgrade", partial(upgrade, scripts=folder))

    return write


def _made(url: str) -> None:
    with Store.open(url) as store:
        store.write(Batch(journal=[LINE], jobs=[JOB]))


def test_an_older_store_is_upgraded_with_what_it_holds(
    url: str, write_next: Callable[..., None]
) -> None:
    _made(url)
    write_next(fails=False)
    with Store.open(url) as store:
        with store._backend.reading.connect() as connection:
            assert revision_of(connection) == FOLLOWING
            assert connection.execute(text("SELECT colour FROM jobs")).scalar() == "blue"
        assert store.active() == [JOB]
        assert store.write(Batch(journal=[LINE])) == (2,)


def test_an_upgrade_that_fails_changes_nothing(url: str, write_next: Callable[..., None]) -> None:
    _made(url)
    write_next(fails=True)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"cannot open the store .*nothing"):
            Store.open(url)
    write_next(fails=False)
    with Store.open(url) as store:
        assert store.active() == [JOB]


def test_a_file_is_copied_aside_before_its_upgrade(
    sqlite_url: str, tmp_path: Path, write_next: Callable[..., None]
) -> None:
    _made(sqlite_url)
    assert not list(tmp_path.glob("*before*")), "a new store has nothing to copy"
    write_next(fails=False)
    Store.open(sqlite_url).close()
    copy = tmp_path / f"treadle.db.before-{FOLLOWING}"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    connection = sqlite3.connect(copy)
    assert connection.execute(f"SELECT version_num FROM {REVISION_TABLE}").fetchall() == [
        (REVISION,)
    ]
    assert connection.execute("SELECT id FROM jobs").fetchall() == [("a",)]
    connection.close()
    assert not list(tmp_path.glob("*unfinished*"))


def test_a_store_that_is_up_to_date_is_not_touched(sqlite_url: str) -> None:
    aside: list[str] = []
    with Store.open(sqlite_url) as store, store._backend.writing.begin() as connection:
        migrate(connection, "here", set_aside=aside.append)
    assert aside == []
