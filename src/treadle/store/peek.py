"""A look at a store without opening it: nothing is locked or written.

`treadle doctor` asks while a daemon may have the store open, or when it cannot be opened.
"""

import sqlite3
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Engine, NullPool, create_engine, func, select, text
from sqlalchemy.exc import DBAPIError

from treadle.core.errors import InvalidInputError
from treadle.core.launch import AttemptId
from treadle.store import identity, schema
from treadle.store.address import path_of, postgresql_url
from treadle.store.bond import BondedFolder, bonded_folder
from treadle.store.errors import StoreError, first_line
from treadle.store.revision import revision_of

WAIT_S = 5
CHECKED_BYTES_MAX = 256 * 2**20  # a larger file is not read as a whole: that would take long


class Peeked(NamedTuple):
    """What a store says of itself."""

    revision: str
    identity: str  # empty before its first start with a Treadle that gives ids
    folder: BondedFolder | None  # the state folder that it belongs to
    unfinished: int  # jobs that have not ended
    attempts: frozenset[AttemptId]  # that have not ended
    damage: str  # what the database found wrong with itself; empty if nothing, or not asked


def peek(url: str) -> Peeked | None:
    """None if there is no store yet; raises StoreError if it cannot be read."""
    engine, path = _engine(url)
    if engine is None:
        return None
    try:
        with engine.connect() as connection:
            revision = revision_of(connection)
            return None if revision is None else _look(connection, revision, path)
    except DBAPIError as error:
        raise StoreError(
            f"cannot read it: {first_line(error.orig or error)}", retryable=False
        ) from (error)
    finally:
        engine.dispose()


def _look(connection: Connection, revision: str, path: Path | None) -> Peeked:
    settings = {row[0]: row[1] for row in connection.execute(select(schema.settings))}
    jobs, attempts = schema.jobs, schema.attempts
    unfinished = connection.execute(
        select(func.count()).select_from(jobs).where(jobs.c.ended_at.is_(None))
    ).scalar_one()
    ids = attempts.c.job, attempts.c.number, attempts.c.nonce
    query = select(*ids).where(attempts.c.ended_at.is_(None))
    return Peeked(
        revision,
        settings.get(identity.KEY, ""),
        bonded_folder(settings.get(identity.FOLDER_KEY)),
        unfinished,
        frozenset(AttemptId(*row) for row in connection.execute(query)),
        _damage(connection, path),
    )


def _damage(connection: Connection, path: Path | None) -> str:
    if path is None or path.stat().st_size > CHECKED_BYTES_MAX:
        return ""
    found = str(connection.execute(text("PRAGMA quick_check(1)")).scalar())
    return "" if found == "ok" else found


def _engine(url: str) -> tuple[Engine | None, Path | None]:
    """How to read the store, and its file if it is one; no engine if there is no file."""
    if url.startswith("sqlite:"):
        path = path_of(url).resolve()
        if not path.exists():
            return None, path

        def connect() -> sqlite3.Connection:
            uri = f"{path.as_uri()}?mode=ro"
            return sqlite3.connect(uri, uri=True, timeout=WAIT_S, check_same_thread=False)

        return create_engine("sqlite://", creator=connect, poolclass=NullPool), path
    address = postgresql_url(url).set(drivername="postgresql+psycopg")
    own = f"-c default_transaction_read_only=on -c statement_timeout={WAIT_S * 1000}"
    session: dict[str, str | int] = {
        "connect_timeout": WAIT_S,
        "options": f"{address.query.get('options', '')} {own}",
    }
    try:
        return create_engine(address, connect_args=session, poolclass=NullPool), None
    except ImportError:
        raise InvalidInputError("it needs psycopg; install treadle[postgresql]") from None
