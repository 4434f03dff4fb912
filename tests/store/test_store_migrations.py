"""Tables of older and newer Treadles: upgraded as a whole, or refused with a sentence."""

import shutil
import sqlite3
import stat
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

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


SQLITE_ONLY = "attempts_by_owner"  # alembic takes no notice of `ddl_if`


def test_the_migrated_tables_are_those_of_the_schema(store: Store) -> None:
    with store._backend.writing.connect() as connection:
        here = {SQLITE_ONLY} if connection.dialect.name != "sqlite" else set()
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "version_table": REVISION_TABLE,
                "include_name": lambda name, *_: name not in here,
                "include_object": lambda _, name, *__: name not in here,
            },
        )
        assert compare_metadata(context, metadata) == []


def test_what_alembic_does_not_compare_is_the_same_too(store: Store) -> None:
    """Keys, conditions of indices and checks, by making the schema's tables beside."""
    with store._backend.writing.connect() as connection:
        migrated = _described(connection)
        for table in metadata.tables:
            connection.execute(text(f"DROP TABLE {table}"))
        metadata.create_all(connection)
        made = _described(connection)
        # Nothing of this is kept: both databases undo it.
        connection.rollback()
    assert migrated == made


def _described(connection):
    found = inspect(connection)
    return {
        table: (
            found.get_pk_constraint(table)["constrained_columns"],
            sorted(map(str, found.get_check_constraints(table))),
            sorted(map(_index, found.get_indexes(table))),
            sorted(
                (column["name"], str(column["type"]), column["nullable"], column["default"])
                for column in found.get_columns(table)
            ),
        )
        for table in metadata.tables
    }


def _index(found):
    options = found.get("dialect_options", {})
    conditions = [str(value) for key, value in options.items() if key.endswith("_where")]
    return found["name"], found["column_names"], bool(found["unique"]), conditions


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
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Treadle of the future, with one revision more."""
    folder = tmp_path / "migrations 100%"
    shutil.copytree(SCRIPTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"{FOLLOWING}_next.py").write_text(
        NEXT.format(fails=False, next=FOLLOWING, newest=REVISION)
    )
    monkeypatch.setattr(migrate_module, "REVISION", FOLLOWING)
    monkeypatch.setattr(
        migrate_module,
        "upgrade",
        lambda connection, revision: upgrade(connection, revision, scripts=folder),
    )
    return folder


def test_an_older_store_is_upgraded_with_what_it_holds(url: str, scripts: Path) -> None:
    with Store.open(url) as store:
        store.write(Batch(journal=[LINE], jobs=[JOB]))
    _set_back(url)
    with Store.open(url) as store:
        with store._backend.reading.connect() as connection:
            assert revision_of(connection) == FOLLOWING
            assert connection.execute(text("SELECT colour FROM jobs")).scalar() == "blue"
        assert store.active() == [JOB]
        assert store.write(Batch(journal=[LINE])) == (2,)


def _set_back(url: str) -> None:
    with Store.open(url) as store, store._backend.writing.connect() as connection:
        connection.execute(text("ALTER TABLE jobs DROP COLUMN colour"))
        connection.execute(text(f"UPDATE {REVISION_TABLE} SET version_num = '{REVISION}'"))
        connection.commit()


def test_an_upgrade_that_fails_changes_nothing(url: str, scripts: Path) -> None:
    with Store.open(url) as store:
        store.write(Batch(journal=[LINE], jobs=[JOB]))
    _set_back(url)
    (scripts / "versions" / f"{FOLLOWING}_next.py").write_text(
        NEXT.format(fails=True, next=FOLLOWING, newest=REVISION)
    )
    for _ in range(2):
        with pytest.raises(StoreError, match=r"cannot open the store .*nothing"):
            Store.open(url)
    (scripts / "versions" / f"{FOLLOWING}_next.py").write_text(
        NEXT.format(fails=False, next=FOLLOWING, newest=REVISION)
    )
    with Store.open(url) as store:
        assert store.active() == [JOB]


def test_a_file_is_copied_aside_before_its_upgrade(
    sqlite_url: str, tmp_path: Path, scripts: Path
) -> None:
    with Store.open(sqlite_url) as store:
        store.write(Batch(journal=[LINE], jobs=[JOB]))
    assert not list(tmp_path.glob("*before*")), "a new store has nothing to copy"
    _set_back(sqlite_url)
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
