"""The table of jobs: what is found by the job, and how much of what is over it keeps."""

from treadle.control.jobs.job_table import ENDED_MAX, JobTable
from treadle.control.jobs.records import JobRecord
from treadle.store.rows import AttemptRow


def attempt(job: str, number: int, *, ended_at: float | None = None) -> AttemptRow:
    return AttemptRow(job, number, 0, "", "", (), None, ended_at, None, failed=False, body=b"")


def numbers(table: JobTable, job: str) -> list[int]:
    return [row.number for row in table.open_of(job)]


def test_open_attempts_by_job() -> None:
    table = JobTable()
    table.put_open(attempt("1", 2))  # as after a restart
    for job, number in (("1", 10), ("1", 3), ("2", 1)):
        table.put_attempt(attempt(job, number))
    assert numbers(table, "1") == [2, 3, 10]
    assert numbers(table, "2") == [1]

    table.put_attempt(attempt("1", 3, ended_at=1.0))
    table.put_attempt(attempt("2", 1, ended_at=1.0))
    table.put_attempt(attempt("2", 1, ended_at=2.0))
    assert numbers(table, "1") == [2, 10]
    assert numbers(table, "2") == numbers(table, "3") == []
    assert {key.job for key in table.open} == {"1"}


def test_of_jobs_that_have_ended_the_newest_are_kept() -> None:
    table, most = JobTable(), ENDED_MAX + 100
    for number in range(1, most + 1):
        record = JobRecord(
            id=str(number),
            number=number,
            name="",
            owner="anna",
            command=("true",),
            submitted_at=0.0,
            array=f"a{number}",
        )
        table.add(record)
        table.put_attempt(attempt(record.id, 1, ended_at=1.0))
        table.drop(record)
    windows = (table._ended, table._arrays_over, table._attempts_over)
    assert {len(window) for window in windows} == {ENDED_MAX}
    assert len(table.take_just_ended()) == ENDED_MAX
    assert table.record(str(most - ENDED_MAX)) is None
    assert table.record(str(most)) is not None
    assert not table.records
