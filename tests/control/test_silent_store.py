"""A store that does not answer: the daemon does, says so, and loses nothing."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.control.daemons import Daemon, daemon
from tests.store.postgres import PostgresServer, running
from tests.waiting import until
from treadle.control.jobs.unwritten_cancels import FILE
from treadle.wire.jobs import JobRequest, State
from treadle.wire.problems import UnavailableError
from treadle.wire.retention import PruneRequest

SILENT = "has not answered for"
LONG = JobRequest(command=("sleep", "600"), grace_s=0.5)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    yield from running()


def took_s(ask: Callable[[], object]) -> float:
    begun = time.monotonic()
    ask()
    return time.monotonic() - begun


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(UnavailableError) as found:
        ask()
    return str(found.value)


def test_a8_a_stopped_database_does_not_stop_the_daemon(server: PostgresServer) -> None:
    with daemon("--store", server.url, "--devices", "2") as here:
        client = here.client
        done = client.submit(JobRequest(command=("echo", "done"))).id
        here.ended(done)
        runs = client.submit(LONG).id
        here.reached(State.RUNNING, runs)
        server.pause()
        try:
            # Every read is refused within its deadline, and at once when it is known that the
            # store does not answer.
            assert took_s(lambda: refused(client.events_last)) < 20
            assert SILENT in refused(client.usage)
            assert took_s(lambda: refused(lambda: client.job_page(ended=True))) < 10
            assert SILENT in refused(lambda: client.submit(LONG, key="again"))
            assert SILENT in refused(lambda: client.prune(PruneRequest(dry_run=True)))
            # What memory has is answered all the time.
            assert client.health() == {"status": "ok"}
            assert SILENT in client.status().problem
            assert client.job(runs).job.state is State.RUNNING
            assert runs in [view.id for view in client.job_page().jobs]
            # An order that must be written stops what runs, before it is on disk.
            client.cancel(runs)
            assert SILENT in client.status().problem
        finally:
            server.resume()
        until(lambda: not client.status().problem)
        assert here.ended(runs)[0].state is State.CANCELLED
        kept = client.submit(LONG, key="again").id
        here.reached(State.RUNNING, kept)
        assert [view.id for view in client.job_page(ended=True).jobs] == [kept, runs, done]
        leaves_while_the_store_is_silent(here, server)
        here.reached(State.RUNNING, kept)


def leaves_while_the_store_is_silent(here: Daemon, server: PostgresServer) -> None:
    """SIGTERM ends the daemon; the next one finds everything."""
    server.pause()
    try:
        refused(here.client.usage)
        assert here.leave() == 0
    finally:
        server.resume()
    here.start()


def test_a5_a_cancel_outlives_the_daemon_that_could_not_write_it(server: PostgresServer) -> None:
    with daemon("--store", server.url, "--devices", "1") as here:
        runs = here.client.submit(LONG).id
        here.reached(State.RUNNING, runs)
        server.pause()
        try:
            here.client.cancel(runs)
            here.kill()
        finally:
            server.resume()
        here.start()
        assert here.ended(runs)[0].state is State.CANCELLED
        assert len(here.client.job(runs).attempts) == 1
        assert not (here.state / FILE).exists()


def test_a8_signals_are_heard_while_a_read_waits(server: PostgresServer) -> None:
    with daemon("--store", server.url, "--devices", "1") as here:
        # It answers before it has begun, and a beginning that cannot read its store fails.
        here.ended(here.client.submit(JobRequest(command=("true",))).id)
        server.pause()
        try:
            refused(here.client.usage)
            assert here.leave(signal.SIGINT) == 0
        finally:
            server.resume()
        here.start()
