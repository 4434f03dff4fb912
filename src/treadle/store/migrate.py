"""Upgrade the tables to the revision that this Treadle knows, in the open transaction.

Alembic is imported only if there is something to do: importing it takes longer than opening the
store.
"""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, Inspector, inspect, text

from treadle.store.errors import StoreError
from treadle.store.schema import REVISION, REVISION_TABLE, metadata

SCRIPTS = Path(__file__).parent / "migrations"


def migrate(connection: Connection, name: str, *, set_aside: Callable[[str], None]) -> None:
    """Upgrade the store; refuse one that is newer, and another program's database."""
    found = revision_of(connection)
    if found == REVISION:
        return
    if found is None:
        _refuse_foreign_tables(inspect(connection), name)
    elif not _known(found):
        raise StoreError(
            f"the store {name} was written by a newer Treadle (revision {found}, this one knows "
            f"{REVISION}); install that Treadle or name another store",
            retryable=False,
        )
    else:
        set_aside(REVISION)
    upgrade(connection, REVISION)


def revision_of(connection: Connection) -> str | None:
    """None for a database without Treadle's tables."""
    if not inspect(connection).has_table(REVISION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {REVISION_TABLE}")).scalar()
    return None if found is None else str(found)


def upgrade(connection: Connection, revision: str, *, scripts: Path = SCRIPTS) -> None:
    from treadle.store.upgrade import run  # noqa: PLC0415  It loads alembic.

    run(connection, revision, scripts=scripts)


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
