"""What is said of jobs that run for longer than their like, or than their steps."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import HOME, ME, Bench, play
from tests.unit.control.test_estimates import teach
from treadle.control.api.job_progress import left_of
from treadle.control.learning import keys_of
from treadle.core.attempt import LastProgress
from treadle.core.events import JobProgressed, JobUpdated
from treadle.models.learning.outcome import Outcome
from treadle.wire.jobs import State


def has_worked(here: Bench, job: str, seconds: float) -> None:
    """It has run for so long: the scheduler hears of it, as from a look at running jobs."""
    scheduler, now = here.live.context.scheduler, here.live.context.clock.now()
    row = scheduler.jobs[job]
    longer = JobUpdated(replace(row.spec, iterations=10 * seconds))
    scheduler.step([longer, JobProgressed(job, row.action, seconds, 1.0)], now)


@pytest.mark.parametrize("age_s", [200.0, 395.0, 1000.0])
def test_u14_a_start_moves_with_a_job_that_has_outlived_its_like(
    tmp_path: Path, age_s: float
) -> None:
    """Of 25 such jobs 24 took a minute and one 400 s: one that has outlived them all may hang, and
    its end is as far as it is old. The job behind it must not be promised the end of that one."""

    async def story(here: Bench) -> None:
        teach(here, "", *[60.0] * 12, 400.0, *[60.0] * 12)
        first = await here.submit("forever")
        await here.reached(first, State.RUNNING)
        second = await here.submit("forever")
        await here.settle()
        has_worked(here, first, age_s)
        end, start = (await here.live.why(first)).end, (await here.live.why(second)).estimate
        assert end is not None
        assert start is not None
        assert end.high_s is not None
        assert start.latest_s is not None
        assert start.latest_s >= 0.9 * end.high_s
        assert start.latest_s >= age_s
        context, record = here.live.context, here.live.context.jobs.record(first)
        assert record is not None
        left = left_of(context, record, context.scheduler.jobs[first])
        assert left is not None
        assert left.at(0.5) >= 0.5 * age_s, "as the shown range, what is drawn follows its age"

    play(story, tmp_path, devices=1)


def test_u14_a_job_whose_steps_are_done_is_not_measured_by_itself(tmp_path: Path) -> None:
    """Only it has run. Its kind knows its steps and its speed from itself, its steps are done, and
    company came, so that its speed is not measured now."""

    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        learner = here.live.context.learner
        keys = keys_of(ME.user, "", ("forever",), folder=HOME)
        learner.learn(keys, Outcome(1, 0.0, total=100.0, step_s=0.2))
        learner.hear(job, LastProgress(100.0, 100.0, None))
        has_worked(here, job, 28.0)
        end = (await here.live.why(job)).end
        assert end is not None
        assert end.low_s is None
        assert end.high_s is None
        assert end.because.startswith("its steps are done")

    play(story, tmp_path, devices=1)


def test_u14_only_runs_of_the_same_command_say_what_follows_the_last_step(tmp_path: Path) -> None:
    """A job stands at its last step for so long that no speed is measured any more. Three that
    differed in a number took 100 s, as long as it has worked by now."""

    async def story(here: Bench) -> None:
        learner = here.live.context.learner
        for _ in range(3):
            learner.profiles.learn(keys_of(ME.user, "", ("forever", "1"), folder=HOME), 1, 100.0)
        job = await here.submit("forever", "2")
        await here.reached(job, State.RUNNING)
        learner.hear(job, LastProgress(1500.0, 1500.0, None))
        has_worked(here, job, 99.9)
        end = (await here.live.why(job)).end
        assert end is not None
        assert end.high_s is None
        assert end.because.startswith("its steps are done")

    play(story, tmp_path, devices=1)


def test_u14_a_job_ages_after_its_last_step(tmp_path: Path) -> None:
    """Runs of the same command took 100 s. It has stood at its last step for three minutes, and its
    work is counted in steps: none is done any more, and it is older than such runs."""

    async def story(here: Bench) -> None:
        learner, clock = here.live.context.learner, here.live.context.clock
        for _ in range(3):
            learner.profiles.learn(keys_of(ME.user, "", ("forever",), folder=HOME), 1, 100.0)
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        learner.meter.see(job, 1500, 1500, clock.now() - 180.0)
        learner.hear(job, LastProgress(1500.0, 1500.0, None))
        record = here.live.context.jobs.record(job)
        assert record is not None
        record.metered = True
        end = (await here.live.why(job)).end
        assert end is not None
        assert end.high_s is not None
        assert end.high_s > 180.0, "it has outlived such runs, and may go on for as long again"

    play(story, tmp_path, devices=1)
