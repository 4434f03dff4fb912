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
        backend = SqliteBackend(path_of(url))
        backend.take(deadline)
        return backend
    return _postgresql(postgresql_url(url))


def shown(url: str) -> str:
    """Where a store is, for people, without a password; refuses what `backend_of` refuses."""
    return str(path_of(url).resolve()) if url.startswith("sqlite:") else _name(postgresql_url(url))


def postgresql_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        # The URL itself is not repeated: it may contain a password anywhere.
        raise InvalidInputError(f"the store's URL cannot be read; {EXPECTED}") from error
    if parsed.drivername not in POSTGRESQL:
        raise InvalidInputError(f"the store's URL begins with {parsed.drivername}; {EXPECTED}")
    return parsed


def _name(url: URL) -> str:
    bare = url.set(drivername="postgresql", query={})
    return bare.render_as_string(hide_password=True)


def path_of(url: str) -> Path:
    """The path without URL decoding: a percent sign stays a percent sign."""
    name = url.removeprefix("sqlite:///")
    if name in {url, "", ":memory:"} or "\0" in name:
        raise InvalidInputError("a SQLite store needs a file; expected sqlite:///path")
    if "?" in name:
        raise InvalidInputError(f"a SQLite store takes no options, found {name[name.index('?') :]}")
    return Path(name)


def _postgresql(url: URL) -> Backend:
    name = _name(url)
    try:
        from treadle.store.postgresql import PostgresqlBackend  # noqa: PLC0415  psycopg is an extra.
    except ImportError as error:
        raise InvalidInputError(
            f"the store {name} needs psycopg; install treadle[postgresql]"
        ) from error
    return PostgresqlBackend(url.set(drivername="postgresql+psycopg"), name)
