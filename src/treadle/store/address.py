"""The store's URL, and the database that it names."""

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from treadle.core.errors import InvalidInputError
from treadle.store.backend import Backend
from treadle.store.deadline import Deadline
from treadle.store.sqlite import SqliteBackend

EXPECTED = "expected sqlite:///path or postgresql://user@host/database"
POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")


def backend_of(url: str, deadline: Deadline) -> Backend:
    """The database of that URL; a SQLite file is created and locked before the deadline."""
    if url.startswith("sqlite:"):
        backend = SqliteBackend(_path(url))
        backend.take(deadline)
        return backend
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        # The URL itself is not repeated: it may contain a password anywhere.
        raise InvalidInputError(f"the store's URL cannot be read; {EXPECTED}") from error
    if parsed.drivername not in POSTGRESQL:
        raise InvalidInputError(f"the store's URL begins with {parsed.drivername}; {EXPECTED}")
    return _postgresql(parsed)


def _path(url: str) -> Path:
    """The path without URL decoding: a percent sign stays a percent sign."""
    name = url.removeprefix("sqlite:///")
    if name in {url, "", ":memory:"} or "\0" in name:
        raise InvalidInputError("a SQLite store needs a file; expected sqlite:///path")
    if "?" in name:
        raise InvalidInputError(f"a SQLite store takes no options, found {name[name.index('?') :]}")
    return Path(name)


def _postgresql(url: URL) -> Backend:
    name = url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)
    try:
        from treadle.store.postgresql import PostgresqlBackend  # noqa: PLC0415  psycopg is an extra.
    except ImportError as error:
        raise InvalidInputError(
            f"the store {name} needs psycopg; install treadle[postgresql]"
        ) from error
    return PostgresqlBackend(url.set(drivername="postgresql+psycopg"), name)
