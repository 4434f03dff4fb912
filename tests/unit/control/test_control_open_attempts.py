"""The attempts of a job that have not ended are found by the job, whatever else runs."""

from treadle.control.jobs.job_table import JobTable
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
