"""The same tests on both databases: each gets an empty one of its own."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.store.postgres import PostgresServer, running
from treadle.store.store import Store

_numbers = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A running PostgreSQL; tests that stop it start it again."""
    yield from running()


def make_schema(server: PostgresServer) -> str:
    """The URL of a new one; a database for each test would be hundreds of megabytes."""
    name = f"treadle_{next(_numbers)}"
    engine = create_engine(server.url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    return f"{server.url}?options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def make_url(request, tmp_path: Path) -> Callable[[], str]:
    """Call it for the URL of a store that does not exist yet."""
    if request.param == "postgresql":
        server = request.getfixturevalue("server")
        return lambda: make_schema(server)
    return lambda: f"sqlite:///{tmp_path}/store-{next(_numbers)}.db"


@pytest.fixture
def url(make_url: Callable[[], str]) -> str:
    return make_url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as store:
        yield store


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/treadle.db"


@pytest.fixture
def postgresql_url(server: PostgresServer) -> str:
    return make_schema(server)
