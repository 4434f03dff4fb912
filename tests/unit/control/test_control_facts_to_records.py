"""Facts and orders become records: sequences that no engine of ours gives today, one by one."""

from dataclasses import replace

import pytest

from treadle.control.api.history import sentence
from treadle.control.jobs import AttemptKey, JobRecord, JobTable, Reducer, accepted
from treadle.control.jobs.records import attempt_of
from treadle.control.learning import JobLearner
from treadle.core.actions import Action, Change, Start
from treadle.core.allocation import Allocation
from treadle.core.attempt import How, LastProgress, Verdict
from treadle.core.cluster import Cluster, Device
from treadle.core.events import (
    AttemptEnded,
    JobProgressed,
    JobStarted,
    JobSubmitted,
    JobUpdated,
    RankReplaced,
)
from treadle.core.job import Profile
from treadle.core.launch import AttemptId
from treadle.core.live_plans import ModelSize, announced
from treadle.core.scheduler import Scheduler
from treadle.testing import builders
from treadle.testing.builders import job
from treadle.wire.jobs import State


class Story:
    """A scheduler that is told its orders, and the records that follow."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(builders.policy("fifo"), Cluster.grid(1, 4))
        self.jobs = JobTable()
        self.learner = JobLearner()
        self.reducer = Reducer(self.jobs, self.learner, self.scheduler)
        record = JobRecord(
            id="a", number=1, name="a", owner="me", command=("x",), submitted_at=1.0, resumable=True
        )
        self.record = record
        self.jobs.add(record)
        self.facts(0.0, accepted([record]), JobSubmitted(job("a", size=2, sizes=(1, 2, 4))))

    def facts(self, now: float, *facts: object) -> None:
        core = [fact for fact in facts if type(fact).__name__ != "JobAccepted"]
        self.scheduler.replay(core, (), now, wake_at=None)  # type: ignore[arg-type]
        over = self.reducer.apply(list(facts), (), now=now, at=100.0 + now)  # type: ignore[arg-type]
        for record in over:
            self.jobs.drop(record)

    def order(self, now: float, action: Action) -> None:
        self.scheduler.replay((), [action], now, wake_at=None)
        self.reducer.apply((), [action], now=now, at=100.0 + now)


def on(*numbers: int, turn: int = 0) -> Allocation:
    return Allocation(tuple(Device("n0", number) for number in numbers), turn=turn)


def test_changes_that_an_attempt_makes_itself_leave_no_attempt_open() -> None:
    """1. It announces that its size can change. 2. Its turn is changed, which needs a restart, and
    before that is answered its size. 3. The engine makes the last change in the first attempt."""
    story = Story()
    story.order(0.0, Start(0, "a", on(0, 1)))
    story.facts(1.0, JobStarted("a", 0, 0.0, 1.0, ("size",), attempt=1))
    story.order(2.0, Change(1, "a", on(0, 1, turn=1)))
    story.order(2.0, Change(2, "a", on(0, 1, 2, 3, turn=1)))
    assert [key.number for key in story.jobs.open] == [1, 2, 3]
    assert story.record.newest == 1
    story.facts(3.0, JobStarted("a", 2, 0.0, 1.0, ("size",), attempt=1))
    assert [key.number for key in story.jobs.open] == [1]
    assert story.record.attempts == 1
    assert story.jobs.newest_attempt("a") == AttemptId("a", 1)
    story.facts(5.0, AttemptEnded("a", 2, 1, How.EXITED, code=0, ran_s=4.0))
    assert not story.jobs.open
    assert story.record.state is State.SUCCEEDED
    assert story.record.device_s == 2 * 2.0 + 2 * 4.0


def test_e1_a_change_that_is_refused_begins_an_attempt_of_its_own() -> None:
    """1. It announces that its size can change. 2. The engine cannot have it changed, and launches
    it for that order. 3. A number that was not used is given again, with another nonce."""
    story = Story()
    story.jobs.run = "run"
    story.order(0.0, Start(0, "a", on(0, 1)))
    story.facts(1.0, JobStarted("a", 0, 0.0, 1.0, ("size",), attempt=1))
    story.order(2.0, Change(1, "a", on(0, 1, 2, 3)))
    first, second = story.jobs.open_of("a")
    assert (first.number, second.number) == (1, 2)
    story.facts(3.0, JobStarted("a", 1, 0.0, 1.0, ("size",), attempt=1))
    story.order(4.0, Change(2, "a", on(0)))
    first, third = story.jobs.open_of("a")
    assert (first.number, third.number) == (1, 2)
    assert len({first.nonce, second.nonce, third.nonce}) == 3
    story.facts(5.0, AttemptEnded("a", 2, 1, How.REPLACED, code=143, ran_s=4.0))
    story.facts(6.0, JobStarted("a", 2, 0.0, 1.0, ("size",), attempt=2))
    assert [row.number for row in story.jobs.open_of("a")] == [2]
    assert (story.record.newest, story.record.starts) == (2, 2)


def test_growth_that_was_refused_just_before_the_end() -> None:
    story = Story()
    story.order(0.0, Start(0, "a", on(0, 1)))
    story.facts(1.0, JobStarted("a", 0, 0.0, 1.0, ("size",), attempt=1))
    story.order(2.0, Change(1, "a", on(0, 1, 2, 3)))
    refused = JobStarted("a", 1, 0.0, 1.0, ("size",), attempt=1, refused="rank 2 ended")
    story.facts(3.0, refused, AttemptEnded("a", 1, 1, How.EXITED, code=0, ran_s=4.0))
    assert (story.record.state, story.record.refused) == (State.SUCCEEDED, "rank 2 ended")
    assert (story.record.resizes, story.record.attempts) == (0, 1)


def test_a_rank_that_was_replaced_stays_on_record_when_its_attempt_has_ended() -> None:
    story = Story()
    story.order(0.0, Start(0, "a", on(0, 1)))
    story.facts(1.0, JobStarted("a", 0, 0.0, 1.0, ("size",), attempt=1))
    before = story.scheduler.jobs["a"]
    story.facts(2.0, RankReplaced("a", 0, 1, 1, 137))
    assert story.scheduler.jobs["a"] == before
    story.facts(5.0, AttemptEnded("a", 0, 1, How.EXITED, code=0, ran_s=4.0))
    row = story.jobs.attempt(AttemptKey("a", 1))
    assert row is not None
    said = "rank 1 was killed by SIGKILL, and another took its place"
    assert attempt_of(row.body).replaced == (said,)
    body = {"rank": 1, "code": 137, "attempt": 1}
    assert sentence("RankReplaced", "a", body) == f"{said} in job a"


def test_a_repeated_end_changes_nothing() -> None:
    story = Story()
    story.order(0.0, Start(0, "a", on(0, 1)))
    story.facts(1.0, JobStarted("a", 0, 0.0, 1.0, attempt=1))
    stopped = AttemptEnded("a", 0, 1, How.STOPPED, code=143, ran_s=3.0, safe=0.5)
    story.facts(4.0, stopped)
    once = (story.record.ran_s, story.record.device_s, story.record.safe, story.record.starts)
    story.facts(5.0, stopped)
    again = (story.record.ran_s, story.record.device_s, story.record.safe, story.record.starts)
    assert again == once == (3.0, 6.0, 0.5, 1)


def test_a7_an_attempt_that_could_not_be_launched_has_failed() -> None:
    story = Story()
    story.order(0.0, Start(0, "a", on(0, 1)))
    verdict = Verdict("transient", "engine-error", "It could not be launched.", "retry")
    story.facts(1.0, AttemptEnded("a", 0, 0, How.ENGINE_ERROR, 126, verdict=verdict))
    assert not story.jobs.open
    (row,) = story.jobs.take_changed_attempts()
    assert (row.number, row.failed, row.started_at) == (1, True, None)
    assert attempt_of(row.body).told == "engine-error"
    assert (story.record.failures, story.record.starts) == (1, 0)


def test_an_attempt_of_which_nothing_ran_is_not_counted() -> None:
    story = Story()
    story.order(0.0, Start(0, "a", on(0, 1)))
    story.facts(1.0, AttemptEnded("a", 0, 0, How.STOPPED))
    assert (story.record.attempts, story.record.starts) == (0, 0)
    assert not story.jobs.open
    assert story.record.state is State.PENDING


def test_a8_a_start_and_an_end_are_when_they_happened_not_when_they_were_noticed() -> None:
    """The controller was down when the job started, and again when it ended."""
    story = Story()
    story.order(0.0, Start(0, "a", on(0, 1)))
    story.facts(20.0, JobStarted("a", 0, 0.0, 1.0, attempt=1, started_at=105.0))
    (attempt,) = story.jobs.open_of("a")
    assert attempt.started_at == story.record.started_at == 105.0
    assert story.record.began_s == 5.0
    story.facts(
        90.0, AttemptEnded("a", 0, 1, How.EXITED, 0, started_at=105.0, ended_at=165.0, ran_s=60.0)
    )
    assert (story.record.started_at, story.record.ended_at) == (105.0, 165.0)
    assert story.record.ran_s == 60.0


def test_a8_the_end_of_the_first_attempt_corrects_a_start_that_was_noticed_late() -> None:
    story = Story()
    story.order(0.0, Start(0, "a", on(0, 1)))
    story.facts(20.0, JobStarted("a", 0, 0.0, 1.0, attempt=1))
    story.facts(
        90.0,
        AttemptEnded("a", 0, 1, How.STOPPED, 143, started_at=105.0, ended_at=165.0, ran_s=60.0),
    )
    assert story.record.started_at == 105.0
    assert story.record.ended_at is None


def test_a8_a_clock_that_was_set_makes_no_start_before_the_submission_or_in_the_future() -> None:
    for told, seen in ((-5000.0, 1.0), (5000.0, 120.0)):
        story = Story()
        story.order(0.0, Start(0, "a", on(0, 1)))
        story.facts(20.0, JobStarted("a", 0, 0.0, 1.0, attempt=1, started_at=told))
        assert story.record.started_at == seen


@pytest.mark.parametrize(("measured_s", "changes"), [(2.0, False), (5.0, True)])
def test_a_speed_that_was_measured_too_shortly_changes_no_plan_model(
    measured_s: float, changes: bool
) -> None:
    """The first step that counts sets how fast a model of that name is taken to be."""
    story = Story()
    size = ModelSize(10_000_000, batch=16, sequence=64, hidden=256, layers=4, heads=4)
    words = (*announced(shard=True, recompute=True, tensor=1, pipeline=1), size.word)
    named = replace(story.scheduler.jobs["a"].spec, profile=Profile(model="mine"))
    plans = story.learner.plans
    story.facts(0.5, JobUpdated(named))
    story.order(1.0, Start(0, "a", on(0, 1)))
    story.facts(1.0, JobStarted("a", 0, 0.0, 1.0, words, attempt=1))
    story.facts(1.5, JobUpdated(plans.offered(named, words)))
    before = plans.version
    said = LastProgress(10.0, 100.0, 4.0, measured_s=measured_s)
    story.facts(10.0, JobProgressed("a", 0, 10.0, 1.0, said))
    assert (plans.version > before) is changes
