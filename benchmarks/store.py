"""The speed of the store on this machine: commits, and reads that get slower as it grows.

    python benchmarks/store.py [--rows 1000000] [--folder .] [--postgresql]

There are no budgets: a commit is as fast as the disk flushes, and disks differ. `--postgresql`
starts a server from Debian's package, with its data in the system's temporary folder.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from time import perf_counter

from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from treadle.store.rows import AttemptRow, Batch, JobFilter, JobRow, JournalRow
from treadle.store.store import Store

sys.path.insert(0, str(Path(__file__).parents[1]))

BODY = b'{"at":1.5,"kind":"JobStarted","job":"resnet-17","action":4711,"devices":["GPU-1","GPU-2"]}'
RECORD = b'{"command":["python","train.py","--epochs","90"],"workdir":"/home/ada/resnet"}' * 6
BATCH_ROWS = 5_000
COMMITS = 1_000


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print("SQLite, every commit flushed (as shipped)")
        with Store.open(f"sqlite:///{folder}/full.db") as store:
            commits(store)
            growth(store, options.rows)
        print("SQLite, flushed occasionally (for comparison)")
        with Store.open(f"sqlite:///{folder}/normal.db") as store:
            _relax(store)
            commits(store)
    if options.postgresql:
        from tests.store.postgres import PostgresServer  # noqa: PLC0415  Tests are not installed.

        server = PostgresServer(flush=True)
        try:
            print("PostgreSQL")
            with Store.open(server.start().url) as store:
                commits(store)
                growth(store, options.rows)
        finally:
            server.remove()


def commits(store: Store) -> None:
    """Batches of three journal rows and one job row, one after the other."""
    taken_s = []
    for number in range(COMMITS):
        batch = Batch(journal=[_line(number)] * 3, jobs=[_job(number)])
        begun = perf_counter()
        store.write(batch)
        taken_s.append(perf_counter() - begun)
    # The slowest one is reported too: it is what a caller may have to wait for.
    percentiles = quantiles(taken_s, n=100)
    print(
        f"  {COMMITS / sum(taken_s):8.0f} commits/s   median {percentiles[49] * 1e3:.2f} ms   "
        f"p99 {percentiles[98] * 1e3:.2f} ms   longest {max(taken_s) * 1e3:.1f} ms"
    )


def growth(store: Store, rows: int) -> None:
    """Time the reads with many rows."""
    begun = perf_counter()
    for first in range(0, rows, BATCH_ROWS):
        store.write(Batch(journal=[_line(first + more) for more in range(BATCH_ROWS)]))
    for first in range(10_000, 100_000, BATCH_ROWS):
        numbers = range(first, first + BATCH_ROWS)
        # The last ten thousand are still pending.
        jobs = [_job(number, ended=number < 90_000) for number in numbers]
        store.write(Batch(jobs=jobs, attempts=[_attempt(number) for number in numbers]))
    print(f"  {perf_counter() - begun:8.1f} s to fill it with {rows} lines and 90000 jobs")
    _time("active(), 10,000 jobs and more", store.active)
    _time("jobs(), first page of 100", lambda: store.jobs(JobFilter()))
    _time("jobs(), of one user", lambda: store.jobs(JobFilter(owner="user-7"), before=(50_000, 0)))
    _time("jobs(), state without jobs", lambda: store.jobs(JobFilter(states=("lost",))))
    _time("lines(), 1,000 in the middle", lambda: store.lines(rows // 2))
    _time("lines() of one job", lambda: store.lines(0, job="job-77"))
    _time("lines() of a kind without lines", lambda: store.lines(0, kinds=("Gone",)))
    _time("usage(), 90,000 attempts, all time", lambda: store.usage(0.0, None, 2e6))
    _time("usage(), the last day", lambda: store.usage(1e6 + 82_000, None, 2e6))
    begun, after, count = perf_counter(), 0, 0
    while page := store.lines(after):
        after, count = page[-1].id, count + len(page)
    print(f"  {(perf_counter() - begun) * 1e3:8.1f} ms  lines(), {count} in pages of 1,000")


def _time(name: str, read: Callable[[], object]) -> None:
    taken_s = []
    for _ in range(5):
        begun = perf_counter()
        read()
        taken_s.append(perf_counter() - begun)
    print(f"  {min(taken_s) * 1e3:8.1f} ms  {name}")


def _line(number: int) -> JournalRow:
    return JournalRow(number * 1.0, 1e6 + number, "JobStarted", f"job-{number % 100_000}", BODY)


def _job(number: int, *, ended: bool = False) -> JobRow:
    return JobRow(
        id=f"job-{number}",
        number=number,
        member=None,
        array="",
        name=f"resnet-{number % 100}",
        owner=f"user-{number % 20}",
        tenant=f"team-{number % 5}",
        state="done" if ended else "queued",
        priority=0,
        submitted_at=1e6 + number,
        ended_at=2e6 if ended else None,
        record=RECORD,
        row=None if ended else RECORD,
    )


def _attempt(number: int) -> AttemptRow:
    return AttemptRow(
        job=f"job-{number}",
        number=1,
        action=number,
        owner=f"user-{number % 20}",
        tenant=f"team-{number % 5}",
        devices=("GPU-1", "GPU-2"),
        started_at=1e6 + number,
        ended_at=1e6 + number + 500 if number < 90_000 else None,
        busy=0.5 if number % 2 else None,
        failed=number % 9 == 0,
        body=b"{}",
    )


def _relax(store: Store) -> None:
    """Flush rarely, for comparison; uses private attributes of the store."""
    engine = store._backend.writing
    event.listen(engine, "connect", _flush_seldom)
    store._writer._drop()


def _flush_seldom(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:  # noqa: ARG001
    connection.execute("PRAGMA synchronous = NORMAL")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="lines of the journal")
    parser.add_argument("--folder", default=None, help="on which disk; the system's temporary one")
    parser.add_argument("--postgresql", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
