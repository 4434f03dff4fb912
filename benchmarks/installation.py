"""A large installation: 10,000 queued and 100,000 ended jobs, and 24 readers that never rest.

    python -m benchmarks.installation [--queued 10000] [--ended 100000] [--readers 24] [--json]

A real daemon first runs one job to its end, queues another and fills all its slots. It is killed,
and the rows that it wrote of these two jobs are repeated through the store's own writer, under
other numbers. Then the daemon is started again on this store and measured over its Unix socket:
from the start to the first answer, its memory, `ps`, and submissions while the readers ask for
lists, explanations, dry runs, snapshots, events, usage and logs, each the next at once.

The readers are four other processes on the same machine. On two cores they take more than half of
the processor from the daemon, so the figures are those of an overloaded machine. Wall-clock figures
depend on the machine: compare only figures of one run.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from treadle.client.client import Client
from treadle.control.jobs.records import kept_of, record_of, row_of
from treadle.core.errors import TreadleError
from treadle.store.rows import AttemptRow, Batch, JobRow, JournalRow, OutputRow
from treadle.store.store import Store
from treadle.wire.jobs import JobRequest

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Event

SLOTS = 16
USERS = 20
PROCESSES = 4
ROWS = 2_000  # jobs of one transaction while the store is filled
PAUSE_S = 0.05  # between two submissions
BUDGET = {
    "start s": 5.0,
    "ps s": 1.0,
    "ps loaded s": 1.0,
    "submit p99 ms": 200.0,
    "memory MB": 500.0,
}


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="treadle-", ignore_cleanup_errors=True) as folder:
        daemon = Daemon(Path(folder), options.policy)
        try:
            found = measure(daemon, options)
        finally:
            daemon.end()
    missed = [name for name, most in BUDGET.items() if found.get(name, 0.0) > most]
    if options.json:
        print(json.dumps({"figures": found, "budget": BUDGET, "missed": missed}, indent=1))
        return 1 if missed else 0
    sizes = f"{options.queued} queued, {options.ended} ended, {options.readers} readers"
    print(f"{sizes}, {os.cpu_count()} cores")
    for name, value in found.items():
        most = f"budget {BUDGET[name]:g}" if name in BUDGET else ""
        print(f"  {name:<24} {value:12.3f}  {most}{'  MISSED' if name in missed else ''}")
    return 1 if missed else 0


def measure(daemon: "Daemon", options: argparse.Namespace) -> dict[str, float]:
    """Fill the store, start, and measure first at rest and then among the readers."""
    daemon.start()
    done, waiting = make_models(daemon)
    daemon.kill()
    found = Figures()
    found["fill s"] = timed(
        lambda: fill(daemon.url, done, waiting, ended=options.ended, queued=options.queued)
    )
    found["start s"] = daemon.start()
    found["start, CPU s"] = daemon.cpu_s()  # this one does not depend on what else runs
    found["memory after start MB"] = daemon.memory_mb()
    found["ps s"] = timed(lambda: daemon.verb("ps"))
    found["ps --all -a 1000 s"] = timed(lambda: daemon.verb("ps", "-a", "--all", "--limit", "1000"))
    found["ps, all queued, API s"] = timed(lambda: daemon.client.job_page(limit=10_000))
    at_rest = [timed(partial(submit_one, daemon.client, number)) for number in range(50)]
    found["submit at rest, p50 ms"] = 1e3 * quantiles(at_rest, n=100)[49]
    for name, ask in questions(daemon.client, done, waiting).items():
        found[f"{name} alone ms"] = 1e3 * timed(ask)
    loaded(found, daemon, done, waiting, options)
    found["memory MB"] = daemon.memory_mb()
    daemon.kill()
    found["start again s"] = daemon.start()
    return found


class Figures(dict[str, float]):
    """Figures by name, shown as they are found."""

    def __setitem__(self, name: str, value: float) -> None:
        print(f"{name}: {value:.3f}", file=sys.stderr, flush=True)
        super().__setitem__(name, value)


def loaded(
    found: Figures, daemon: "Daemon", done: str, waiting: str, options: argparse.Namespace
) -> None:
    """Submissions and `ps` while the readers read."""
    with reading(daemon.socket, done, waiting, options.readers) as counts:
        took = []
        slowest_ps = 0.0
        for number in range(options.submissions):
            took.append(timed(partial(submit_one, daemon.client, number)))
            if number % 50 == 25:
                slowest_ps = max(slowest_ps, timed(lambda: daemon.verb("ps")))
            time.sleep(PAUSE_S)
        answers, refusals = counts()
    cuts = quantiles(took, n=100)
    found["submit p50 ms"], found["submit p99 ms"] = 1e3 * cuts[49], 1e3 * cuts[98]
    found["submit slowest ms"] = 1e3 * max(took)
    found["ps loaded s"] = slowest_ps
    found["reads a second"], found["reads refused"] = answers, refusals


def submit_one(client: Client, number: int) -> None:
    client.submit(JobRequest(command=("true",), name=f"more-{number}", devices="1..4"))


def questions(client: Client, done: str, waiting: str) -> dict[str, Callable[[], object]]:
    """What readers ask, by name."""
    request = JobRequest(command=("python", "train.py"), devices="1..4")
    return {
        "ps": lambda: client.job_page(limit=100),
        "ps -a": lambda: client.job_page(ended=True, user="user-3", limit=100),
        "why": lambda: client.why(waiting),
        "describe": lambda: client.job(done),
        "dry run": lambda: client.dry_run(request),
        "snapshot": client.snapshot,
        "events": lambda: client.events_last(limit=100),
        "usage": client.usage,
        "logs": lambda: client.log(done),
        "status": client.status,
    }


def make_models(daemon: "Daemon") -> tuple[str, str]:
    """One job that has ended, one that waits, and jobs on all slots."""
    client = daemon.client
    done = client.submit(JobRequest(command=("echo", "done"), name="model")).id
    wait_for(lambda: client.job(done).job.state.ended)
    for _ in range(SLOTS):
        client.submit(JobRequest(command=("sleep", "3600"), grace_s=0.1))
    wait_for(lambda: client.status().free == 0)
    return done, client.submit(JobRequest(command=("true",), devices="1..4")).id


def fill(url: str, done: str, waiting: str, *, ended: int, queued: int) -> None:
    """Repeat the rows of two jobs under other numbers, in the store's own transactions."""
    with Store.open(url) as store:
        number = itertools.count(store.next_number())
        model = Model.of(store, done)
        for done_before in range(0, ended, ROWS):
            batch = Batch()
            for _ in range(min(ROWS, ended - done_before)):
                model.add(batch, next(number), user=True)
            store.write(batch)
            # As the daemon does after each end: it has looked what the job left, here nothing.
            store.put_outputs(
                [OutputRow(row.id, row.owner, row.ended_at or 0.0, 0) for row in batch.jobs]
            )
        model = Model.of(store, waiting)
        sequence = 0
        for queued_before in range(0, queued, ROWS):
            batch = Batch()
            for _ in range(min(ROWS, queued - queued_before)):
                sequence = model.add(batch, next(number))
            store.write(batch)
        order = store.settings()["counters"].split()[0]
        store.write(Batch(settings={"counters": f"{order} {sequence + 1}"}))


class Model(NamedTuple):
    """The rows that a daemon wrote of one job."""

    job: JobRow
    attempts: list[AttemptRow]
    lines: list[JournalRow]

    @classmethod
    def of(cls, store: Store, identity: str) -> "Model":
        job = store.job(identity)
        assert job is not None
        return cls(job, store.attempts(identity), store.lines(0, job=identity))

    def add(self, batch: Batch, number: int, *, user: bool = False) -> int:
        """The same of another job; returns its place in the order of arrival."""
        record, identity = record_of(self.job), str(number)
        owner = f"user-{number % USERS}" if user else record.owner
        record = structs.replace(
            record, id=identity, number=number, name=f"job-{number % 1000}", owner=owner
        )
        kept, sequence = None, 0
        if self.job.row is not None:
            kept = kept_of(self.job)
            sequence = kept.job.sequence + number
            spec = replace(kept.job.spec, id=identity)
            kept = kept._replace(job=kept.job._replace(spec=spec, sequence=sequence))
        batch.jobs.append(row_of(record, kept))
        batch.attempts += [row._replace(job=identity, owner=owner) for row in self.attempts]
        batch.journal += [
            row._replace(job=identity, body=self._renamed(row.body, identity), id=0)
            for row in self.lines
        ]
        return sequence

    def _renamed(self, body: bytes, identity: str) -> bytes:
        old, new = self.job.id.encode(), identity.encode()
        for name in (b"job", b"id"):
            body = body.replace(b'"%b":"%b"' % (name, old), b'"%b":"%b"' % (name, new))
        return body.replace(b'"number":%b' % old, b'"number":%b' % new)


class Tally(NamedTuple):
    """What the processes of readers share."""

    answers: "Synchronized[int]"
    refusals: "Synchronized[int]"
    ready: "Synchronized[int]"
    stop: "Event"


@contextmanager
def reading(
    socket: Path, done: str, waiting: str, readers: int
) -> Iterator[Callable[[], tuple[float, float]]]:
    """Readers in other processes; gives the function that counts their answers a second."""
    spawn = multiprocessing.get_context("spawn")
    tally = Tally(spawn.Value("q", 0), spawn.Value("q", 0), spawn.Value("q", 0), spawn.Event())
    shares = [readers // PROCESSES + (n < readers % PROCESSES) for n in range(PROCESSES)]
    processes = []
    for first, share in zip(itertools.accumulate([0, *shares]), shares, strict=False):
        process = spawn.Process(
            target=read,
            args=(str(socket), done, waiting),
            kwargs={"first": first, "share": share, "tally": tally},
            daemon=True,
        )
        processes.append(process)
        processes[-1].start()
    wait_for(lambda: tally.ready.value == readers)
    begun, before = time.perf_counter(), tally.answers.value

    def count() -> tuple[float, float]:
        took_s = time.perf_counter() - begun
        return (tally.answers.value - before) / took_s, float(tally.refusals.value)

    try:
        yield count
    finally:
        tally.stop.set()
        for process in processes:
            process.join(30)


def read(socket: str, done: str, waiting: str, *, first: int, share: int, tally: "Tally") -> None:
    """Several readers of one process, each in a thread of its own."""

    def one(turn: int) -> None:
        with Client(f"unix:{socket}", timeout_s=60.0) as client:
            asks = [ask for _, ask in sorted(questions(client, done, waiting).items())]
            with tally.ready.get_lock():
                tally.ready.value += 1
            while not tally.stop.is_set():
                turn += 1
                try:
                    asks[turn % len(asks)]()
                    counter = tally.answers
                except TreadleError:
                    counter = tally.refusals
                with counter.get_lock():
                    counter.value += 1

    threads = [threading.Thread(target=one, args=(first + n,)) for n in range(share)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Daemon:
    """A daemon in a folder, that can be killed and started again."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.socket = folder / "s"
        self._state = folder / "state"
        self._log = folder / "log"
        self._policy = policy
        self.url = f"sqlite:///{self._state}/treadle.db"
        self.client = Client(f"unix:{self.socket}", timeout_s=120.0)
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {**os.environ, "TREADLE_SOCKET": str(self.socket)}
        self._environment.pop("TREADLE_URL", None)

    def start(self) -> float:
        """Seconds until the first list of jobs is answered."""
        words = ["up", "--foreground", "--state", str(self._state), "--socket", str(self.socket)]
        words += ["--devices", str(SLOTS), "--policy", self._policy]
        begun = time.perf_counter()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "treadle", *words], stdout=log, stderr=log
            )
        wait_for(self._answers)
        return time.perf_counter() - begun

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.client.close()

    def end(self) -> None:
        """Cancel what runs, so that nothing is left behind."""
        if self._process is None or self._process.poll() is not None:
            return
        self.client.close()
        self.verb("down", "--cancel", "--yes", check=False)
        self._process.wait(120)

    def verb(self, *words: str, check: bool = True) -> None:
        subprocess.run(
            [sys.executable, "-m", "treadle", *words],
            env=self._environment,
            check=check,
            stdout=subprocess.DEVNULL,
        )

    def cpu_s(self) -> float:
        """The CPU time that it has used so far."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """The most that was ever resident."""
        assert self._process is not None
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) / 1024

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise SystemExit(f"the daemon has ended: {self._log.read_text()[-2000:]}")
        try:
            return bool(self.client.job_page(limit=1))
        except (TreadleError, OSError):
            return False


def timed(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def wait_for(there: Callable[[], object], within_s: float = 120.0) -> None:
    end_at = time.monotonic() + within_s
    while not there():
        if time.monotonic() > end_at:
            raise SystemExit(f"nothing after {within_s:g} s")
        time.sleep(0.02)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--ended", type=int, default=100_000)
    parser.add_argument("--readers", type=int, default=24)
    parser.add_argument("--submissions", type=int, default=300)
    parser.add_argument("--policy", default="afs")
    parser.add_argument("--json", action="store_true")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
