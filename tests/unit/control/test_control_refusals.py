"""A job that a machine refused waits longer each time, and a late report blocks nothing."""

from treadle.control.jobs.refusals import MACHINE, PAUSE_MAX_S, REFUSALS_MAX, Refusals
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded, JobHeld, JobReleased, JobStarted
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.testing.builders import job


def refused(action: int) -> AttemptEnded:
    return AttemptEnded("a", action, action, How.MACHINE_ERROR, error="no more processes")


def row(action: int, phase: Phase = Phase.STARTING) -> Job:
    return Job(job("a"), 0, phase, 0.0, 0.0, action=action, attempt=action)


def test_a5_the_pause_doubles_up_to_a_minute_and_begins_anew_once_the_job_ran() -> None:
    refusals = Refusals()
    pauses = []
    now = 0.0
    for action in range(1, 9):
        assert refusals.judge(refused(action), row(action), now) == [JobHeld("a", MACHINE)]
        found = refusals.of("a")
        assert found is not None
        pauses.append(found.until_s - now)
        assert refusals.over(found.until_s - 0.001) == []
        now = found.until_s
        assert refusals.over(now) == [JobReleased("a", MACHINE)]
        assert refusals.over(now) == [], "once"
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, PAUSE_MAX_S, PAUSE_MAX_S]
    refusals.started([JobStarted("a", 9, 0.0, 1.0)])
    assert refusals.of("a") is None
    refusals.judge(refused(9), row(9), now)
    again = refusals.of("a")
    assert again is not None
    assert again.until_s == now + 1.0


def test_a5_a_report_about_an_earlier_attempt_or_an_ended_job_blocks_nothing() -> None:
    refusals = Refusals()
    assert refusals.judge(refused(3), row(4), 0.0) == []
    assert refusals.judge(refused(4), row(4, Phase.WAITING), 0.0) == []
    assert refusals.judge(refused(4), row(4, Phase.CANCELLING), 0.0) == []
    assert refusals.judge(refused(4), None, 0.0) == []
    assert refusals.judge(AttemptEnded("a", 4, 4, How.EXITED, 1), row(4), 0.0) == []


def test_a5_a_job_that_is_refused_very_often_in_a_row_has_failed() -> None:
    """Errors of its own program and folder cannot be told from the machine's."""
    refusals = Refusals()
    for action in range(1, REFUSALS_MAX + 1):
        assert refusals.bounded(refused(action)) == refused(action)
        refusals.judge(refused(action), row(action), 0.0)
    last = refusals.bounded(refused(99))
    assert (last.how, last.code) == (How.ENGINE_ERROR, 126)
    assert refusals.judge(last, row(99), 0.0) == []
    assert refusals.bounded(AttemptEnded("a", 99, 99, How.EXITED, 1)).how is How.EXITED
