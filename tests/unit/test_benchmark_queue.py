"""A queue of a trace that is recorded in parts is the same as in one."""

from functools import cache, reduce

from benchmarks.calibration import ENDED_MIN, Overall
from benchmarks.queued_starts import QueuedJob, Record, Wait, recorded
from benchmarks.start_ranges import judged

from treadle.models.learning.kinds import Likeness

JOBS = [
    QueuedJob(400.0 * (n // 4) + (n % 4 > 1), 1, 300.0 + n % 3, Likeness(("all/", "*")), "all")
    for n in range(48)
]


@cache
def recorded_at_once() -> Record:
    return recorded(JOBS, "afs")


def test_a_queue_recorded_in_parts_is_that_recorded_at_once() -> None:
    whole = recorded_at_once()
    parts = [recorded(JOBS, "afs", part, 3) for part in range(3)]
    assert reduce(Record.with_answers, parts).moments == whole.moments
    waits = [moment for moment in whole.moments if isinstance(moment, Wait)]
    assert len(waits) > 12
    assert all(wait.answers for wait in waits if wait.ended)


def test_waits_of_a_queue_are_given_ranges() -> None:
    found = judged(recorded_at_once(), Overall(), ended_min=ENDED_MIN)
    assert found.waits - found.learned.unsure >= len(found.learned.shown) > 4
    held = [one.low_s - 1.0 <= one.waited_s <= one.high_s + 1.0 for one in found.known.shown]
    assert sum(held) > 0.9 * len(held)
