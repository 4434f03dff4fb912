"""Make the tables, or upgrade them to the revision that this Treadle knows.

Alembic is imported only if there is something to do: importing it takes longer than opening the
store.
"""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Column, Connection, Inspector, MetaData, String, Table, inspect, text

from treadle.store.errors import StoreError
from treadle.store.schema import REVISION, REVISION_TABLE, metadata

SCRIPTS = Path(__file__).parent / "migrations"


def migrate(connection: Connection, name: str, *, set_aside: Callable[[str], None]) -> None:
    """Upgrade the store; refuse one that is newer, and another program's database."""
    found = revision_of(connection)
    if found == REVISION:
        return None
    if found is None:
        _refuse_foreign_tables(inspect(connection), name)
        return _make(connection)
    if not _known(found):
        raise StoreError(
            f"the store {name} was written by a newer Treadle (revision {found}, this one knows "
            f"{REVISION}); install that Treadle or name another store",
            retryable=False,
        )
    set_aside(REVISION)
    return upgrade(connection, REVISION)


def revision_of(connection: Connection) -> str | None:
    """None for a database without Treadle's tables."""
    if not inspect(connection).has_table(REVISION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {REVISION_TABLE}")).scalar()
    return None if found is None else str(found)


def upgrade(connection: Connection, revision: str, *, scripts: Path = SCRIPTS) -> None:
    from treadle.store.upgrade import run  # noqa: PLC0415  It loads alembic.

    run(connection, revision, scripts=scripts)


def _make(connection: Connection) -> None:
    """The tables of the schema, and their revision as alembic keeps it."""
    revision = Table(
        REVISION_TABLE, MetaData(), Column("version_num", String(32), primary_key=True)
    )
    metadata.create_all(connection)
    revision.create(connection)
    connection.execute(revision.insert().values(version_num=REVISION))


def _known(revision: str) -> bool:
    # Revisions are numbers with leading zeros, so that they sort as text.
    return len(revision) == len(REVISION) and revision.isdigit() and revision < REVISION


def _refuse_foreign_tables(inspector: Inspector, name: str) -> None:
    taken = sorted(set(inspector.get_table_names()) & set(metadata.tables))
    if taken:
        raise StoreError(
            f"the database {name} has a table {taken[0]} that Treadle did not make; "
            "give Treadle a database of its own",
            retryable=False,
        )
