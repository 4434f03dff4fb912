"""The id of a store: random, made once, kept among its settings.

A deleted store that is made again has another id. A copy and a restored backup have the same one:
what they order is told apart by the nonces of attempts.
"""

from uuid import uuid4

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import DBAPIError

from treadle.store import schema
from treadle.store.errors import StoreError

PREFIX = "identity."  # of settings that say who the store is, not how it is to run
KEY = f"{PREFIX}store"
FOLDER_KEY = f"{PREFIX}folder"  # the state folder that it belongs to (bond.py)
SHOWN = 8  # characters of an id that are enough for people

_ID = select(schema.settings.c.value).where(schema.settings.c.key == KEY)


def found(connection: Connection) -> str:
    """The id of the store; empty if it has none."""
    return str(connection.execute(_ID).scalar() or "")


def make(connection: Connection) -> str:
    """Give the store an id, in the open transaction."""
    fresh = uuid4().hex
    connection.execute(insert(schema.settings).values(key=KEY, value=fresh))
    return fresh


def check(connection: Connection, expected: str, name: str) -> None:
    """After a reconnection: refuse a database that is not the one that was opened."""
    try:
        with connection.begin():
            there = found(connection)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        there = ""  # The tables are gone.
    if there != expected:
        now = f"another store ({there[:SHOWN]})" if there else "not a store of Treadle"
        raise StoreError(
            f"the database {name} was store {expected[:SHOWN]} when Treadle opened it and is {now} "
            "now, so nothing more is written; put the store back, or run treadle down and start "
            "again with what is there",
            retryable=True,
        )
