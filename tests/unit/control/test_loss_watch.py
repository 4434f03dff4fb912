"""The end of a job that only reports losses, predicted from them while that can be done."""

from tests.unit.control.memory import Bench, playing
from treadle.control.learning.loss_watch import POINTS_MAX, LossWatch
from treadle.core.job_report import Report
from treadle.wire.machine import Role, Who


def falling(step: float) -> float:
    return 1.0 / (0.05 * step + 0.5) + 0.4


def test_a_loss_that_falls_along_a_curve_gives_the_step_of_convergence() -> None:
    watch = LossWatch()
    for step in range(1, 120):
        watch.see("a", step, falling(step))
    end = watch.end("a")
    assert end is not None
    late = (falling(end - 10) - falling(end)) / falling(end)
    assert late < 0.01, "ten more reports bring less than a hundredth"
    assert 60 < end < 1000


def test_a_loss_that_swings_gives_none() -> None:
    watch = LossWatch()
    for step in range(1, 120):
        watch.see("a", step, 2.0 + (step % 7) * 0.5)
    assert watch.end("a") is None


def test_a_job_that_starts_over_is_judged_anew_and_memory_is_bounded() -> None:
    watch = LossWatch()
    for step in range(1, 10 * POINTS_MAX):
        watch.see("a", step, falling(step))
    assert watch.end("a") is not None
    assert len(watch._jobs["a"].steps) <= POINTS_MAX + 1
    watch.see("a", 1, falling(1))
    assert watch.end("a") is None
    watch.keep(["b"])
    assert not watch._jobs


@playing()
async def test_policies_are_given_the_predicted_end_and_people_no_percentage(here: Bench) -> None:
    job = await here.runs()
    own = Who(user="me", role=Role.VIEWER, job=job)
    clock = here.live.context.clock
    began, step = clock.now(), 0
    jobs = here.live.context.scheduler.jobs
    while jobs[job].spec.iterations == 3600.0:  # An hour, of which nothing is known.
        step += 1
        await here.live.report(own, job, Report(step=step, loss=falling(step)))
        await here.settle()
        assert clock.now() - began < 40
    assert jobs[job].spec.iterations < 1000
    progress = (await here.live.job(job)).job.progress
    assert progress is not None
    assert progress.total is None
