"""Nothing is lost: the controller is killed at its store's writes, more than 300 times in all."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.control.crashing import Told
from weft.control.records import record_of
from weft.store.rows import JobFilter
from weft.store.store import Store
from weft.wire.jobs import State

ROOT = Path(__file__).parents[2]
CRASHES, JOBS = 80, 110
ENDS = {
    0: (State.SUCCEEDED, 0),
    1: (State.SUCCEEDED, 0),
    2: (State.FAILED, 3),
    3: (State.SUCCEEDED, 0),
    4: (State.SUCCEEDED, 0),
    5: (State.CANCELLED, None),
    6: (State.SUCCEEDED, 0),
    7: (State.SUCCEEDED, 0),
}


@pytest.mark.parametrize("seed", range(4))
def test_a_controller_that_is_killed_at_its_writes_loses_nothing(tmp_path: Path, seed: int) -> None:
    """No submitted job is lost, none starts twice, those that run are taken over, exit statuses
    are right, and before every start the journal replays to what the store holds."""
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    words = [str(tmp_path), url, str(CRASHES), str(seed), str(JOBS)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.control.crashing", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    error = tmp_path / "error.txt"
    assert run.returncode == 0, error.read_text() if error.exists() else run.stderr
    assert int((tmp_path / "died").read_text()) >= 78
    check_ends(tmp_path, url)


def check_ends(folder: Path, url: str) -> None:
    with Store.open(url) as store:
        records = [record_of(row) for row in store.jobs(JobFilter(), limit=10_000)]
        attempts = {record.id: store.attempts(record.id) for record in records}
        assert not store.active()
    told = [(name, identity) for what, name, identity in Told(folder).read() if what == "submitted"]
    assert Counter(record.name for record in records) == Counter(name for name, _ in told)
    assert {record.id for record in records} == {identity for _, identity in told}
    assert len(records) == JOBS
    for record in records:
        kind = int(record.name[-3:]) % 8
        state, code = ENDS[kind]
        assert record.state is state, f"{record.name} ended as {record.state}: {record}"
        if code is not None:
            assert record.exit == code, f"{record.name}: {record.exit}"
        started = starts(folder, record.name)
        for (attempt, rank), count in Counter(started).items():
            assert count == 1, (
                f"{record.name} started rank {rank} of attempt {attempt} {count} times"
            )
        launched = {row.number for row in attempts[record.id] if row.started_at is not None}
        assert {attempt for attempt, _ in started} <= {row.number for row in attempts[record.id]}
        if kind in (0, 1, 2, 4, 6):
            assert len({attempt for attempt, _ in started}) == 1, f"{record.name}: {started}"
        assert all(row.ended_at is not None for row in attempts[record.id])
        assert launched


def starts(folder: Path, name: str) -> list[tuple[int, int]]:
    """(attempt, rank) of every process that began."""
    path = folder / "starts" / name
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines]


def test_the_story_of_the_crashes_is_told(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.write("submitted", "a", "1")
    assert told.read() == [("submitted", "a", "1")]
    assert json.loads((tmp_path / "told.jsonl").read_text()) == ["submitted", "a", "1"]
