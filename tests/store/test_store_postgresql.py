"""PostgreSQL goes away, comes back, or loses the answer to a commit: each batch is written once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from sqlalchemy import Connection, create_engine, text

from tests.store.conftest import make_schema
from tests.store.cutting import CuttingWire
from tests.store.made import JOB, LINE
from tests.store.postgres import PostgresServer
from treadle.store.errors import StoreError
from treadle.store.rows import Batch
from treadle.store.store import Store

BATCH = Batch(journal=[LINE, LINE], jobs=[JOB])
WAIT_S = 30


@contextmanager
def administrator(url: str) -> Iterator[Connection]:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def end_sessions(url: str) -> None:
    with administrator(url) as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )


@pytest.fixture
def wire(server: PostgresServer) -> Iterator[CuttingWire]:
    wire = CuttingWire(server.port)
    yield wire
    wire.close()


@pytest.fixture
def wired_url(server: PostgresServer, wire: CuttingWire, postgresql_url: str) -> str:
    return postgresql_url.replace(f":{server.port}/", f":{wire.port}/")


def once(point: str, act: Callable[[], None]) -> Callable[[str], None]:
    """A hook that acts the first time a point is reached after it was armed."""
    done: list[bool] = []

    def hook(reached: str) -> None:
        if reached == point and not done:
            done.append(True)
            act()

    return hook


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_restarts_between_writes_is_not_noticed(
    server: PostgresServer, postgresql_url: str, mode: str
) -> None:
    with Store.open(postgresql_url) as store:
        assert store.write(BATCH) == (1, 2)
        assert store.job("a") == JOB
        server.restart(mode)
        assert store.job("a") == JOB
        assert store.write(BATCH) == (3, 4)
        assert len(store.lines(0)) == 4


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.parametrize("point", ["begin", "writer", "journal", "jobs", "commit", "committed"])
def test_a_server_that_restarts_during_a_write_gets_it_once(
    server: PostgresServer, postgresql_url: str, point: str, mode: str
) -> None:
    hook = once(point, lambda: server.restart(mode))
    with Store.open(postgresql_url, hook=hook) as store:
        assert store.write(BATCH) == (1, 2)
        assert [row.id for row in store.lines(0)] == [1, 2]
        assert store.write(BATCH) == (3, 4)


@pytest.mark.parametrize("point", ["begin", "journal", "commit"])
def test_a_server_that_stays_away_gets_nothing_until_it_is_back(
    server: PostgresServer, postgresql_url: str, point: str
) -> None:
    hook = once(point, lambda: server.stop("immediate"))
    with Store.open(postgresql_url, hook=hook, patience_s=0.5) as store:
        try:
            with pytest.raises(StoreError, match="the store postgresql://") as found:
                store.write(BATCH)
            # A commit that was never received is not written either, but the writer cannot know.
            assert found.value.fate_unknown == (point == "commit")
            assert found.value.retryable
            with pytest.raises(StoreError, match="cannot read the store") as found:
                store.active()
            assert found.value.retryable
        finally:
            server.start()
        assert store.lines(0) == []
        assert store.write(Batch(journal=[LINE])) == (1,)
        assert store.active() == []


@pytest.mark.parametrize("when", ["before", "after", "zombie"])
def test_a_commit_whose_answer_is_lost_is_looked_up_and_not_repeated(
    wire: CuttingWire, wired_url: str, when: str
) -> None:
    with Store.open(wired_url) as store:
        assert store.write(BATCH) == (1, 2)
        wire.cut = when
        assert store.write(BATCH) == (3, 4)
        assert wire.cut == "", "nothing was cut"
        assert [row.id for row in store.lines(0)] == [1, 2, 3, 4]
        assert store.write(BATCH) == (5, 6)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_batch_of_unknown_fate_is_written_once_if_it_comes_again(
    wire: CuttingWire, wired_url: str, when: str
) -> None:
    with Store.open(wired_url, patience_s=0.3) as store:
        wire.cut, wire.dead_after_cut = when, True
        with pytest.raises(StoreError, match=r"cannot say whether the store .* write the same"):
            store.write(BATCH)
        with pytest.raises(StoreError) as found:
            store.write(BATCH)
        assert found.value.fate_unknown
        wire.dead = False
        assert store.write(BATCH) == (1, 2)
        assert [row.id for row in store.lines(0)] == [1, 2]
        assert store.write(BATCH) == (3, 4)


def test_another_batch_is_refused_once_the_lost_one_turns_up(
    wire: CuttingWire, wired_url: str
) -> None:
    with Store.open(wired_url, patience_s=0.3) as store:
        wire.cut, wire.dead_after_cut = "after", True
        with pytest.raises(StoreError) as found:
            store.write(BATCH)
        assert found.value.fate_unknown
        wire.dead = False
        for _ in range(2):
            with pytest.raises(StoreError, match="a batch that was reported as lost") as found:
                store.write(Batch(journal=[LINE]))
            assert not found.value.retryable


def test_another_batch_is_written_once_the_lost_one_is_known_to_be_lost(
    wire: CuttingWire, wired_url: str
) -> None:
    with Store.open(wired_url, patience_s=0.3) as store:
        wire.cut, wire.dead_after_cut = "before", True
        with pytest.raises(StoreError):
            store.write(BATCH)
        wire.dead = False
        assert store.write(Batch(journal=[LINE])) == (1,)
        assert store.active() == []


def test_the_lock_is_taken_again_after_the_session_was_ended(postgresql_url: str) -> None:
    with Store.open(postgresql_url) as store:
        end_sessions(postgresql_url)
        assert store.write(BATCH) == (1, 2)
        with pytest.raises(StoreError, match="is in use by process"):
            Store.open(postgresql_url, lock_wait_s=0)


def test_a_controller_that_lost_its_lock_to_another_may_not_write(postgresql_url: str) -> None:
    with Store.open(postgresql_url, patience_s=0.3) as first:
        end_sessions(postgresql_url)
        with Store.open(postgresql_url) as second:
            with pytest.raises(StoreError, match="is in use by process") as found:
                first.write(BATCH)
            assert not found.value.retryable
            assert second.write(BATCH) == (1, 2)
        # The other one has gone again; what it wrote is not known to the first.
        with pytest.raises(StoreError, match="another controller has taken over") as found:
            first.write(BATCH)
        assert not found.value.retryable
        assert len(first.lines(0)) == 2


def test_two_schemas_of_a_database_are_two_stores(server: PostgresServer) -> None:
    with (
        Store.open(make_schema(server)) as store,
        Store.open(make_schema(server)) as other,
        Store.open(server.url),
    ):
        other.write(BATCH)
        assert store.lines(0) == []
        assert len(other.lines(0)) == 2


def test_a_locked_table_is_waited_for(postgresql_url: str) -> None:
    tried = Event()
    begun: list[str] = []

    def hook(point: str) -> None:
        begun.append(point)
        # The second beginning follows the first refusal.
        if begun.count("begin") == 2:
            tried.set()

    with Store.open(postgresql_url, hook=hook) as store:
        written: list[tuple[int, ...]] = []
        with administrator(postgresql_url) as connection:
            connection.execute(text("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE"))
            thread = Thread(target=lambda: written.append(store.write(BATCH)))
            thread.start()
            assert tried.wait(WAIT_S)
            connection.rollback()
        thread.join()
        assert written == [(1, 2)]


def test_a_store_without_a_server_says_so() -> None:
    with pytest.raises(StoreError, match="cannot open the store postgresql://treadle:") as found:
        Store.open("postgresql://treadle:geheim@127.0.0.1:1/treadle", lock_wait_s=0)
    assert found.value.retryable
    assert "geheim" not in str(found.value)
    assert "geheim" not in repr(found.value.__cause__)
