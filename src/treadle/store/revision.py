"""Make the tables of a new store; refuse a store with others than this Treadle's.

There is one revision so far. The first Treadle with another one is to upgrade what is there.
"""

from sqlalchemy import Column, Connection, Inspector, MetaData, String, Table, inspect, text

from treadle.store.errors import StoreError
from treadle.store.schema import REVISION, REVISION_TABLE, metadata


def make_or_check(connection: Connection, name: str) -> None:
    """Refuse a store of another Treadle, and another program's database."""
    found = revision_of(connection)
    if found is None:
        _refuse_foreign_tables(inspect(connection), name)
        _make(connection)
    elif found != REVISION:
        raise StoreError(
            f"the store {name} was written by another Treadle (revision {found}, this one knows "
            f"{REVISION}); install that Treadle or name another store",
            retryable=False,
        )


def revision_of(connection: Connection) -> str | None:
    """None for a database without Treadle's tables."""
    if not inspect(connection).has_table(REVISION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {REVISION_TABLE}")).scalar()
    return None if found is None else str(found)


def _make(connection: Connection) -> None:
    """The tables of the schema, and their revision."""
    revision = Table(
        REVISION_TABLE, MetaData(), Column("version_num", String(32), primary_key=True)
    )
    metadata.create_all(connection)
    revision.create(connection)
    connection.execute(revision.insert().values(version_num=REVISION))


def _refuse_foreign_tables(inspector: Inspector, name: str) -> None:
    taken = sorted(set(inspector.get_table_names()) & set(metadata.tables))
    if taken:
        raise StoreError(
            f"the database {name} has a table {taken[0]} that Treadle did not make; "
            "give Treadle a database of its own",
            retryable=False,
        )
