"""Starts, ends and reasons as people read them: they agree with one another."""

from math import prod

import pytest

from tests.unit.control.memory import HOME, ME, Bench, lesson, playing, span
from treadle.core.attempt import LastProgress
from treadle.models.learning.kinds import by_command
from treadle.wire.jobs import Progress


def teach(here: Bench, model: str, *lengths: float) -> None:
    """Whole runs of jobs of a model on one device."""
    for length_s in lengths:
        keys = by_command(ME.user, model, ("forever",), folder=HOME)
        lesson(here.live.context.learner.profiles, keys, 1, length_s)


@playing(devices=1)
async def test_u4_a_start_is_as_doubtful_as_the_end_that_it_waits_for(here: Bench) -> None:
    """One run is known, so the range of the end is widened. The job behind it knows no more."""
    teach(here, "", 1000.0)
    first = await here.runs()
    second = await here.submit("forever")
    await here.settle()
    end, start = await here.end(first), await here.start(second)
    (end_low_s, end_high_s), (earliest_s, latest_s) = span(end), span(start)
    assert earliest_s <= end_low_s + 0.1 * 1000.0
    assert latest_s >= 0.95 * end_high_s
    assert start.coverage == end.coverage == 0.8


@playing(devices=2)
async def test_u4_the_order_of_starts_is_not_the_rank(here: Bench) -> None:
    """1. Jobs of 1000 s and 100 s run on two devices. 2. A gang of two is first in the policy's
    order, and a job of 50 s behind it will start first."""
    teach(here, "long", *[1000.0] * 5)
    teach(here, "short", *[100.0] * 5)
    teach(here, "small", *[50.0] * 5)
    for model in ("long", "short"):
        await here.runs(model=model)
    gang = await here.submit("forever", model="small", devices="2")
    small = await here.submit("forever", model="small")
    await here.settle()
    behind, ahead = await here.live.why(gang), await here.live.why(small)
    assert (behind.position, ahead.position) == (1, 2)
    assert behind.waiting == ahead.waiting == 2
    late, soon = await here.start(gang), await here.start(small)
    assert (late.order, soon.order) == (2, 1)
    assert span(soon)[1] < span(late)[1]


@playing(devices=2, policy="afs")
async def test_u4_the_list_gives_the_reason_that_why_gives(here: Bench) -> None:
    await here.runs(devices="2")
    wait = [await here.submit("forever", devices="2"), await here.submit("x", devices="1..2")]
    wait.append(await here.submit("forever", priority=-1))
    await here.settle()
    listed = {view.id: (view.cause, view.because) for view in (await here.live.jobs()).jobs}
    for job in wait:
        why = await here.live.why(job)
        assert listed[job] == (why.code, why.sentence)
    assert listed[wait[-1]][0] == "devices"


@playing()
async def test_u5_a_jobs_own_steps_count_from_two_seconds_on(here: Bench) -> None:
    """Ten steps in two seconds: 5 a second, give or take a third."""
    job = await here.runs()
    said = LastProgress(10.0, 110.0, 5.0, measured_s=2.0)
    here.live.context.learner.hear(job, said)
    end = await here.end(job)
    assert end.because == "from its steps"
    low_s, high_s = span(end)
    assert 12.0 < low_s < 20.0 < high_s < 28.0


@pytest.mark.parametrize(
    "said",
    [
        LastProgress(100.0, 100.0, 5.0, measured_s=20.0),
        LastProgress(100.0, 100.0, speeds=(2.0, 30.0)),  # No speed was measured yet.
    ],
)
@playing(devices=1)
async def test_no_start_is_promised_by_steps_that_are_all_done(
    here: Bench, said: LastProgress
) -> None:
    """The job that waits for such a job knows no more of its end than the job itself."""
    keys = by_command(ME.user, "", ("forever", "else"), folder=HOME)
    for _ in range(10):
        lesson(here.live.context.learner.profiles, keys, 1, 50.0)
    job = await here.runs()
    second = await here.submit("forever")
    here.live.context.learner.hear(job, said)
    end = await here.end(job)
    assert end.because.startswith("its steps are done")
    why = await here.live.why(second)
    assert why.estimate is not None
    assert why.estimate.unknown == (job,)
    assert not why.change


@playing(devices=1)
async def test_a_start_behind_first_steps_is_as_doubtful_as_their_end(here: Bench) -> None:
    """Two of 100 steps are done, two to thirty a second; other jobs took 5000 s."""
    keys = by_command(ME.user, "", ("forever", "else"), folder=HOME)
    for _ in range(10):
        lesson(here.live.context.learner.profiles, keys, 1, 5000.0)
    job = await here.runs()
    second = await here.submit("forever")
    here.live.context.learner.hear(job, LastProgress(2.0, 100.0, speeds=(2.0, 30.0)))
    assert span(await here.start(second))[1] <= 1.1 * span(await here.end(job))[1]


@playing(devices=2)
async def test_a_start_names_the_jobs_whose_length_is_not_known(here: Bench) -> None:
    for _ in range(2):
        await here.runs()
    start = await here.start(await here.submit("forever", devices="2"))
    await here.settle()
    [queued] = (await here.live.queue()).jobs
    assert queued.start is not None
    assert start.unknown == queued.start.unknown == ("1", "2")


@playing()
async def test_u5_an_end_counts_the_time_since_the_last_look(here: Bench) -> None:
    """At step 10 of 20, one step a second, and two seconds ago: eight are left."""
    job = await here.runs()
    context = here.live.context
    now = context.clock.now()
    context.learner.meter.see(job, 0, 20, now - 12.0)
    context.learner.meter.see(job, 10, 20, now - 2.0)
    context.learner.hear(job, LastProgress(10.0, 20.0, 1.0, measured_s=10.0))
    end = await here.end(job)
    assert 7.4 < prod(span(end)) ** 0.5 <= 8.05


@pytest.mark.parametrize(
    ("steps", "pause_s", "known"),
    [
        (100.0, 1.0, False),
        (100.0, 25.0, True),  # Three such pauses are longer.
        (90_000.0, 1.0, True),  # A minute is little of what is left.
    ],
)
@playing(devices=1)
async def test_a_job_that_stands_still_promises_no_end(
    here: Bench, steps: float, pause_s: float, known: bool
) -> None:
    """Twenty steps in as many seconds after a pause, and none for a minute; another job waits."""
    job = await here.runs()
    context = here.live.context
    now = context.clock.now()
    context.learner.listens_from = now - 200.0
    for step, ago_s in ((0, 80.0 + pause_s), (1, 80.0), (20, 60.0), (20, 0.0)):
        context.learner.meter.see(job, step, steps, now - ago_s)
    context.learner.hear(job, LastProgress(20.0, steps, 1.0, measured_s=20.0))
    end = await here.end(job)
    assert end.known == known
    waiting = await here.submit("forever")
    await here.settle()
    start = await here.start(waiting)
    # Where an end is known, a few draws of it may still be much later.
    assert end.high_s is not None or start.latest_s is None


@playing()
async def test_what_follows_the_last_step_is_known_before_the_record_has_it(here: Bench) -> None:
    """It has just said its last step; its record follows every few seconds."""
    teach(here, "known", *[1000.0] * 5)
    job = await here.runs(model="known")
    record = here.live.context.jobs.record(job)
    assert record is not None
    record.progress, record.metered = Progress(step=79.0, total=80.0), True
    here.live.context.learner.hear(job, LastProgress(80.0, 80.0, 5.0, measured_s=20.0))
    end = await here.end(job)
    assert end.because == "from 5 runs of this command"


@pytest.mark.parametrize("limit_s", [20.0, 2000.0])
@playing(devices=1)
async def test_no_start_is_promised_after_a_job_that_its_limit_will_end(
    here: Bench, limit_s: float
) -> None:
    teach(here, "known", *[1000.0] * 5)
    first = await here.runs(model="known", time_limit_s=limit_s)
    after = await here.live.why(await here.submit("forever", after=(first,)))
    assert after.code == "dependency"
    assert after.numbers["fails"] == (first if limit_s < 1000.0 else "")
    assert (after.estimate is None) == (limit_s < 1000.0)
    either = await here.live.why(await here.submit("forever", after_any=(first,)))
    assert either.numbers["fails"] == ""
    assert either.estimate is not None
