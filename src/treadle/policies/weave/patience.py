"""No job waits for ever: one that has waited for many times its length goes first for a while.

The shortest job first is best on average and can starve the longest. A job is overdue once all its
waits together are `patience` times what it would still run at its asked size (of a job of unknown
length: what it has run), and at least `patience` times LEAST_S. All waits count, so a job that is
started for a moment on devices left over, again and again, becomes overdue as one that never ran.

Overdue jobs go first, the longest overdue before the others, and together take up to a quarter of
the devices; the first of them is always served. A job of known length then runs to its end: its
wait was many times what is left. One of unknown length keeps its turn for a quarter of its wait. It
has then run for longer than its wait over `patience`, and must wait several times as long again.
"""

from collections.abc import Iterable

from treadle.core.job import Job, JobId

LEAST_S = 360.0
SHARE = 0.25  # of the devices, for overdue jobs
TURN = 0.25  # of the time that it waited, which a job of unknown length then runs at least


def is_overdue(job: Job, now: float, *, rest_s: float, patience: float, known: bool) -> bool:
    """rest_s: how long it would still run, or had run before its turn if its length is unknown."""
    waited_s = job.waited_at(now)
    if waited_s < patience * max(rest_s, LEAST_S):
        return False
    return known or job.allocation is None or now - job.begun_at < TURN * waited_s


def first(jobs: Iterable[tuple[Job, int]], devices: int) -> set[JobId]:
    """Of overdue jobs with the fewest devices that each can use, those that go first."""
    budget = SHARE * devices
    found: set[JobId] = set()
    for job, size in sorted(jobs, key=_waiting_since):
        if not found or size <= budget:
            found.add(job.id)
            budget -= size
    return found


def _waiting_since(row: tuple[Job, int]) -> tuple[float, int]:
    """When it would have been queued had it waited without a break until now, or until it started.

    It is the same at every decision until the job starts or stops, so turns are not interrupted.
    """
    job, _ = row
    until_at = job.since_at if job.allocation is None else job.begun_at
    return until_at - job.waited_s, job.sequence
