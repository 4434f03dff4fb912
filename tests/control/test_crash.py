"""Nothing is lost: the controller is killed at its store's writes (thorough: 336 times)."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.control.crashing import KINDS, MEMBERS, Told
from tests.shared import THOROUGH
from tests.store.postgres import MISSING, PostgresServer, programs
from treadle.control.jobs.records import JobRecord, record_of
from treadle.store.rows import AttemptRow, JobFilter
from treadle.store.store import Store
from treadle.wire.jobs import State

ROOT = Path(__file__).parents[2]
SEEDS, CRASHES, JOBS = (4, 80, 100) if THOROUGH else (1, 12, 15)
ENDS = {
    0: (State.SUCCEEDED, 0),
    1: (State.SUCCEEDED, 0),
    2: (State.FAILED, 3),
    3: (State.SUCCEEDED, 0),
    4: (State.SUCCEEDED, 0),
    5: (State.CANCELLED, None),
    6: (State.SUCCEEDED, 0),
    7: (State.SUCCEEDED, 0),
    8: (State.SUCCEEDED, 0),
    9: (State.SUCCEEDED, 0),
}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_controller_that_is_killed_at_its_writes_loses_nothing(tmp_path: Path, seed: int) -> None:
    """No submitted job is lost, none starts twice, those that run are taken over, exit codes
    are right, and before every start the journal replays to what the store holds."""
    crash(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}", CRASHES, seed, JOBS)


def test_the_same_on_postgresql(tmp_path: Path) -> None:
    if programs() is None:
        pytest.skip(MISSING)
    server = PostgresServer()
    try:
        crash(tmp_path, server.start().url, *((16, 4, 30) if THOROUGH else (8, 4, 15)))
    finally:
        server.remove()


def crash(folder: Path, url: str, crashes: int, seed: int, jobs: int) -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.control.crashing",
            folder,
            url,
            *map(str, (crashes, seed, jobs)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    error = folder / "error.txt"
    assert run.returncode == 0, error.read_text() if error.exists() else run.stderr
    assert int((folder / "died").read_text()) >= crashes - 2
    check_ends(folder, url, jobs)


def check_ends(folder: Path, url: str, jobs: int) -> None:
    with Store.open(url) as store:
        records = [record_of(row) for row in store.jobs(JobFilter(), limit=10_000)]
        attempts = {record.id: store.attempts(record.id) for record in records}
        assert not store.active()
        assert store.segments(thinned=True), "the journal was compacted meanwhile"
    told = [(name, identity) for what, name, identity in Told(folder).read() if what == "submitted"]
    assert Counter({name: copies(name) for name, _ in told}) == Counter(r.name for r in records)
    assert {record.array or record.id for record in records} == {identity for _, identity in told}
    assert len(told) == jobs
    for record in records:
        check_end(folder, record, attempts[record.id])


def check_end(folder: Path, record: JobRecord, attempts: list[AttemptRow]) -> None:
    kind = kind_of(record.name)
    state, code = ENDS[kind]
    assert record.state is state, f"{record.name} ended as {record.state}: {record}"
    if code is not None:
        assert record.exit == code, f"{record.name}: {record.exit}"
    name = record.name if record.member is None else f"{record.name}-{record.member}"
    started = starts(folder, name)
    # A crash of ours is no failure of the job's. The one that fails at first does so only if it
    # is not called off before: a controller may be killed in the middle of having it launched.
    failed = {2: 1, 7: int((1, 0) in started)}.get(kind, 0)
    assert record.failures == failed, f"{record.name}: {record.failures}, {record.failure}"
    for (attempt, rank), count in Counter(started).items():
        assert count == 1, f"{record.name} started rank {rank} of attempt {attempt} {count} times"
    assert {attempt for attempt, _ in started} <= {row.number for row in attempts}
    if kind in (0, 1, 2, 4, 6, 8, 9):
        assert len({attempt for attempt, _ in started}) == 1, f"{record.name}: {started}"
    assert all(row.ended_at is not None for row in attempts)
    assert any(row.started_at is not None for row in attempts), f"{record}: {attempts}"


def kind_of(name: str) -> int:
    return int(name[-3:]) % KINDS


def copies(name: str) -> int:
    """How many jobs a submission makes."""
    return MEMBERS if kind_of(name) == 9 else 1


def starts(folder: Path, name: str) -> list[tuple[int, int]]:
    """(attempt, rank) of every process that began."""
    path = folder / "starts" / name
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines]


def test_acknowledged_submissions_are_written_down(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.write("submitted", "a", "1")
    assert told.read() == [("submitted", "a", "1")]
    assert json.loads((tmp_path / "told.jsonl").read_text()) == ["submitted", "a", "1"]
