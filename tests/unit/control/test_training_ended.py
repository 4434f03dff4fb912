"""A job whose training is over is left alone until it ends by itself."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play
from treadle.core.actions import Action, Stop
from treadle.core.cluster import Cluster
from treadle.core.events import (
    JobCancelled,
    JobFinished,
    JobStarted,
    JobSubmitted,
    TrainingEnded,
)
from treadle.core.job import JobSpec
from treadle.core.job_report import Report
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.live.eligibility import OVER_S
from treadle.policies.registry import policy
from treadle.wire.jobs import State

OVER_AT = 1000.0


def over(*, name: str = "afs", ends: bool = True) -> Scheduler:
    """Job 7 has both devices for long, and its training is over."""
    cluster = Cluster.grid(1, 2)
    belief = ScalingModel.on(cluster)
    made = policy(f"{name}+live", placement("consolidate"), belief)
    scheduler = Scheduler(made, cluster)
    scheduler.step([JobSubmitted(JobSpec("7", 1e6, (1, 2), asked=2))], 0.0)
    (action,) = scheduler.jobs.values()
    scheduler.step([JobStarted("7", action.action, 0.0, 1.0)], 1.0)
    if ends:
        scheduler.step([TrainingEnded("7", action.action)], OVER_AT)
    return scheduler


def submit(scheduler: Scheduler, now: float, *, priority: int = 0) -> list[Action]:
    spec = JobSpec("8", 100.0, (1,), priority=priority)
    return list(scheduler.step([JobSubmitted(spec)], now))


@pytest.mark.parametrize("name", ["afs", "max-min", "srtf"])
def test_a_job_that_is_about_to_end_is_neither_stopped_nor_resized(name: str) -> None:
    scheduler = over(name=name)
    assert submit(scheduler, OVER_AT + 1000.0) == []
    assert over(name=name, ends=False).jobs["7"].over_at is None


@pytest.mark.parametrize("name", ["afs", "max-min", "srtf"])
def test_without_that_it_would_have_been(name: str) -> None:
    assert submit(over(name=name, ends=False), OVER_AT + 1000.0) != []


def test_an_urgent_job_waits_for_its_end_a_minute_and_no_longer() -> None:
    scheduler = over()
    assert submit(scheduler, OVER_AT + 1.0, priority=10) == []
    assert scheduler.wake_at == pytest.approx(OVER_AT + OVER_S)
    assert [action.job for action in scheduler.decide(OVER_AT + OVER_S)] == ["7", "8"]


def test_a_user_cancels_it_at_any_time() -> None:
    scheduler = over()
    assert [type(action) for action in scheduler.step([JobCancelled("7")], OVER_AT)] == [Stop]


def test_its_devices_go_to_others_when_it_has_ended() -> None:
    scheduler = over()
    submit(scheduler, OVER_AT + 1.0)
    action = scheduler.jobs["7"].action
    given = scheduler.step([JobFinished("7", action)], OVER_AT + 2.0)
    assert [action.job for action in given] == ["8"]


def test_an_attempt_that_replaces_it_trains_again() -> None:
    """It was stopped for a change of its size while its training ended."""
    scheduler = over(name="afs", ends=False)
    submit(scheduler, OVER_AT)
    changed = scheduler.jobs["7"]
    assert (changed.phase, changed.size) == (Phase.STARTING, 1)
    scheduler.step([TrainingEnded("7", changed.action)], OVER_AT + 1.0)
    assert scheduler.jobs["7"].over_at == OVER_AT + 1.0
    scheduler.step([JobStarted("7", changed.action, 0.0, 1.0)], OVER_AT + 2.0)
    assert scheduler.jobs["7"].over_at is None


def test_what_it_says_of_itself_after_its_training_does_not_begin_it_again() -> None:
    scheduler = over()
    action = scheduler.jobs["7"].action
    scheduler.step([JobStarted("7", action, 0.0, 1.0, ("size",))], OVER_AT + 1.0)
    assert scheduler.jobs["7"].over_at == OVER_AT


def test_a_live_job_says_so_in_why(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        action = here.live.context.scheduler.jobs[job].action
        here.memory._tell(TrainingEnded(job, action))
        await here.settle()
        why = await here.live.why(job)
        assert (why.code, why.numbers["late"]) == ("over", False)
        events = await here.live.events(after=0, limit=100)
        assert "job 1 has ended its training and is about to end" in [e.text for e in events.events]

    play(story, tmp_path)


def test_an_attempt_that_begins_from_scratch_is_not_shown_as_done(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", resumable=False, retries=3)
        await here.reached(job, State.RUNNING)
        await here.live.report(ME, job, Report(step=40.0, total=40.0))
        await here.settle()
        here.memory.finish(job, code=1)
        await here.settle()
        await here.reached(job, State.RUNNING)
        view = (await here.live.job(job)).job
        assert (view.attempts, view.progress) == (2, None)

    play(story, tmp_path)
