"""The table of jobs: looking jobs up, and their history."""

import itertools

import pytest

from tests.unit.control.memory import ME, Bench, playing
from treadle.control.jobs.job_table import ENDED_MAX, JobTable
from treadle.control.jobs.records import JobRecord
from treadle.control.learning.load_history import LEVELS, History, packed, unpacked
from treadle.core.sighting import Load
from treadle.store.rows import AttemptRow
from treadle.wire.job_orders import JobsOrder, Verb
from treadle.wire.jobs import State
from treadle.wire.problems import ConflictError


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


# -- Jobs are found by name in the same way for one order and for many -----------------------------


@playing()
async def test_one_order_and_many_find_the_same_jobs_by_name(here: Bench) -> None:
    """An ended job is found by its name, whichever way it is asked for."""
    over = await here.submit("true", name="over")
    await here.reached(over, State.SUCCEEDED)
    here.live.context.jobs.forget([over])  # Only the store has it now.
    answer = await here.live.order(ME, JobsOrder(verb=Verb.CANCEL, ids=("over", "none")))
    assert [each.error for each in answer.outcomes] == [
        "job over has ended already (succeeded)",
        "there is no job 'none'",
    ]
    with pytest.raises(ConflictError, match=r"job over has ended already \(succeeded\)"):
        await here.live.cancel(ME, "over")


@playing()
async def test_the_name_of_an_active_job_is_found_without_the_store(here: Bench) -> None:
    await here.submit("forever", name="mine", held=True)
    here.live.context.reads.close()
    answer = await here.live.order(ME, JobsOrder(verb=Verb.CANCEL, ids=("mine",)))
    assert (answer.done, answer.refused) == (1, 0)


# -- restarts -------------------------------------------------------------------------------------


# -- The history of an attempt: bounded, finer for what is newer, kept as a few bytes --------------


DAY_S = 86_400


def told(seconds: int, every_s: int = 2) -> History:
    history = History()
    for at in range(0, seconds, every_s):
        busy = 1.0 if at % 4 else 0.5
        history.add(Load(busy=busy, cores=2.0), float(at), alone=True, wall_at=1000.0 + at)
    return history


def test_points_follow_each_other_without_overlap_and_get_finer() -> None:
    points = told(3 * 3600).points()
    for before, after in itertools.pairwise(points):
        assert before.at + before.span_s <= after.at
        assert before.span_s >= after.span_s
    assert points[0].at == 0.0
    assert points[-1].at == 3 * 3600 - 2
    assert {point.span_s for point in points} == {2.0, 30.0, 300.0}


def test_a_week_has_no_more_points_than_the_levels_allow() -> None:
    points = told(7 * DAY_S, every_s=30).points()
    assert len(points) <= sum(most for _, most in LEVELS) + len(LEVELS)
    assert len(packed(points)) < 20_000


def test_a_point_has_the_mean_and_the_maximum_of_what_was_measured() -> None:
    points = told(3 * 3600).points()
    coarse = next(point for point in points if point.span_s == 30.0)
    assert abs((coarse.mean.busy or 0.0) - 0.75) < 0.05
    assert coarse.most.busy == 1.0
    assert coarse.mean.device_memory_gib is None


def test_a_stored_history_is_read_back_and_goes_on() -> None:
    first = told(600)
    again = History.of(unpacked(packed(first.points())), first.started_at)
    assert again.points() == first.points()
    again.add(Load(busy=0.25), 5.0, alone=False, wall_at=1000.0 + 660.0)
    newest = again.points()[-1]
    assert (newest.at, newest.mean.busy, newest.alone) == (660.0, 0.25, False)
