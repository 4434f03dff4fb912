"""Lengths of jobs as they are learned, said and given to policies."""

from dataclasses import replace

import pytest

from tests.unit.control.memory import HOME, ME, Bench, lesson, playing, span
from tests.unit.control.test_attempt_ends import completion
from tests.unit.control.test_estimates import teach
from treadle.control.api.job_progress import left_of
from treadle.control.jobs import id_of
from treadle.control.learning.learned_lengths import Profiles, Program, Question
from treadle.core.attempt import How, LastProgress
from treadle.core.cluster import Cluster
from treadle.core.events import AttemptEnded, JobProgressed, JobSubmitted, JobUpdated
from treadle.core.job import JobSpec
from treadle.core.machine import Measurement
from treadle.core.scheduler import Scheduler
from treadle.models.learning.kinds import by_command
from treadle.models.learning.outcome import Outcome
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.wire.jobs import Estimate, JobRequest, State


def has_worked(here: Bench, job: str, seconds: float) -> None:
    """It has run for so long: the scheduler hears of it, as from a look at running jobs."""
    scheduler, now = here.live.context.scheduler, here.live.context.clock.now()
    row = scheduler.jobs[job]
    longer = JobUpdated(replace(row.spec, iterations=10 * seconds))
    scheduler.step([longer, JobProgressed(job, row.action, seconds, 1.0)], now)


@pytest.mark.parametrize("age_s", [395.0, 1000.0])
@playing(devices=1)
async def test_u14_a_start_moves_with_a_job_that_has_outlived_its_like(
    here: Bench, age_s: float
) -> None:
    """Of 25 such jobs 24 took a minute and one 400 s: one that has outlived them all may hang, and
    its end is as far as it is old. The job behind it is not promised the end of that one."""
    teach(here, "", *[60.0] * 12, 400.0, *[60.0] * 12)
    first = await here.runs()
    second = await here.submit("forever")
    await here.settle()
    has_worked(here, first, age_s)
    end, start = await here.end(first), await here.start(second)
    assert end.high_s is not None
    assert end.high_s >= age_s
    assert start.latest_s is None
    context, record = here.live.context, here.live.context.jobs.record(first)
    assert record is not None
    left = left_of(context, record, context.scheduler.jobs[first])
    assert left is not None
    assert left.at(0.5) >= 0.5 * age_s, "as the shown range, what is drawn follows its age"


@playing(devices=1)
async def test_u14_a_job_whose_steps_are_done_is_not_measured_by_itself(here: Bench) -> None:
    """Only it has run. Its kind knows its steps and its speed from itself, its steps are done, and
    company came, so that its speed is not measured now."""
    job = await here.runs()
    learner = here.live.context.learner
    keys = by_command(ME.user, "", ("forever",), folder=HOME)
    learner.learn(keys, Outcome(1, 0.0, total=100.0, step_s=0.2))
    learner.hear(job, LastProgress(100.0, 100.0, None))
    has_worked(here, job, 28.0)
    end = await here.end(job)
    assert end.low_s is None
    assert end.high_s is None
    assert end.because.startswith("its steps are done")


@playing(devices=1)
async def test_u14_only_runs_of_the_same_command_say_what_follows_the_last_step(
    here: Bench,
) -> None:
    """A job stands at its last step for so long that no speed is measured any more. Three that
    differed in a number took 100 s, as long as it has worked by now."""
    learner = here.live.context.learner
    for _ in range(3):
        lesson(learner.profiles, by_command(ME.user, "", ("forever", "1"), folder=HOME), 1, 100.0)
    job = await here.runs("forever", "2")
    learner.hear(job, LastProgress(1500.0, 1500.0, None))
    has_worked(here, job, 99.9)
    end = await here.end(job)
    assert end.high_s is None
    assert end.because.startswith("its steps are done")


@playing(devices=1)
async def test_u14_a_job_ages_after_its_last_step(here: Bench) -> None:
    """Runs of the same command took 100 s. It has stood at its last step for three minutes, and its
    work is counted in steps: none is done any more, and it is older than such runs."""
    learner, clock = here.live.context.learner, here.live.context.clock
    for _ in range(3):
        lesson(learner.profiles, by_command(ME.user, "", ("forever",), folder=HOME), 1, 100.0)
    job = await here.runs()
    learner.meter.see(job, 1500, 1500, clock.now() - 180.0)
    learner.hear(job, LastProgress(1500.0, 1500.0, None))
    record = here.live.context.jobs.record(job)
    assert record is not None
    record.metered = True
    end = await here.end(job)
    assert end.high_s is not None
    assert end.high_s > 180.0, "it has outlived such runs, and may go on for as long again"


# -- A length says for how many devices it is, where that is not what was seen or will be given ----


def checked(found: Estimate | None, because: str, *, holds_s: float) -> None:
    assert found is not None
    assert found.because == because
    low_s, high_s = span(found)
    assert low_s < holds_s < high_s


@playing(devices=2)
async def test_u14_a_size_that_was_not_seen_may_be_no_faster_and_is_said(here: Bench) -> None:
    """A command that took 1,000 s on one device, such as `sleep 1000`, takes that on two."""
    teach(here, "", *[1000.0] * 5)
    because = "from 5 runs of this command, none on 2 devices"
    dry = await here.live.dry_run(ME, JobRequest(command=("forever",), devices="2"))
    checked(dry.length, because, holds_s=1000.0)
    job = await here.runs(devices="2")
    checked((await here.live.why(job)).end, because, holds_s=999.0)


@playing(devices=2)
async def test_u14_the_length_of_an_elastic_job_says_for_which_size_it_is(here: Bench) -> None:
    teach(here, "", *[1000.0] * 5)
    await here.runs(devices="2")
    job = await here.submit("forever", devices="1..2")
    await here.settle()
    because = "from 5 runs of this command, none on 2 devices, if it has 2 devices all the time"
    checked((await here.live.why(job)).length, because, holds_s=1000.0)


# -- The time from the last step of a job to its end is measured, and is part of what is learned ---


@playing()
async def test_u14_the_end_of_an_attempt_says_how_long_it_ran_after_its_steps(here: Bench) -> None:
    """It began at 1,000 s, its last step was seen 16 s later, and it ran for 28 s."""
    job = await here.runs()
    learner = here.live.context.learner
    learner.begin(job, 0, 1, share=0.0, now=1000.0)
    for step, now in ((0, 1001.0), (100, 1016.0), (100, 1027.0)):
        learner.meter.see(job, step, 100.0, now)
    (row,) = here.live.context.jobs.open_of(job)
    for at in (1000.0, 1002.0):
        found = Measurement(id_of(row), 0.5, at=at)
        learner.seen.see([found], {}, {}, now=at, wall_at=at)
    end = AttemptEnded(job, 0, 1, How.EXITED, 0, codes=(0,), ended_at=9070.0, ran_s=28.0)
    ends = completion(here, here.memory)
    whole = ends.complete(end, await ends.read(end))
    assert whole.seen is not None
    assert whole.seen.tail_s == 12.0


# -- The two lengths of a job that waits: the one that orders it, and when it will be gone ---------


MINUTES_OR_HOURS = [*[60.0] * 4, 36_000.0, *[60.0] * 4, 36_000.0, *[60.0] * 8]


@playing(devices=2, policy="afs")
async def test_a_job_that_may_take_hours_does_not_start_on_devices_kept_for_a_gang(
    here: Bench,
) -> None:
    """1. A job of ten minutes runs, and a gang of two waits for it. 2. Four others overtake the
    gang, so devices are kept for it. 3. A job arrives whose like took a minute, or ten hours."""
    teach(here, "mixed", *MINUTES_OR_HOURS)
    teach(here, "steady", *[600.0] * 5)
    await here.runs(model="steady")
    gang = await here.submit("forever", devices="2", model="steady")
    await here.settle()
    for _ in range(4):
        await here.submit("sleep", "0")
        await here.settle()
    late = await here.submit("forever", model="mixed")
    await here.settle()
    assert here.state(late) is State.PENDING
    why = await here.live.why(late)
    assert (why.code, why.numbers["for_job"]) == ("reserved", gang)


@playing(devices=1, policy="afs")
async def test_the_same_job_is_ordered_by_how_soon_it_may_end(here: Bench) -> None:
    """1. The only device is taken. 2. A job of ten minutes waits, then one whose like took a minute
    nine times of ten, and else hours. 3. The device comes free: the second starts."""
    teach(here, "mixed", *MINUTES_OR_HOURS)
    teach(here, "steady", *[600.0] * 5)
    first = await here.runs(model="steady")
    steady = await here.submit("forever", model="steady")
    mixed = await here.submit("forever", model="mixed")
    await here.settle()
    spec = here.live.context.scheduler.jobs[mixed].spec
    assert spec.order_work < 600.0 < spec.iterations
    await here.live.cancel(ME, first)
    await here.reached(mixed, State.RUNNING)
    assert here.state(steady) is State.PENDING


@pytest.mark.parametrize(
    "name", ["sjf", "srtf", "srsf", "gittins", "afs", "altruistic", "muri-s", "aiturbo"]
)
def test_every_policy_that_orders_by_length_reads_the_one_for_order(name: str) -> None:
    cluster = Cluster.grid(1, 1)
    made = policy(name, placement("consolidate"), ScalingModel.on(cluster))
    scheduler = Scheduler(made, cluster)
    known = JobSpec("known", 600.0, (1,))
    mixed = JobSpec("mixed", 4000.0, (1,), order_work=60.0)
    actions = scheduler.step([JobSubmitted(known), JobSubmitted(mixed)], 0.0)
    assert actions[0].job == "mixed"


@pytest.mark.parametrize(
    ("limit_s", "length_s"), [(None, 3600.0), (1e6, 3600.0), (3600.0, 3600.0), (60.0, 60.0)]
)
def test_a_users_estimate_is_the_length_within_the_time_limit(
    limit_s: float | None, length_s: float
) -> None:
    program = Program("ann", "", ("train",))
    question = Question.of(program, asked=1, sizes=(1,), estimate_s=3600.0, limit_s=limit_s)
    assert Profiles().ask(question).length_s == length_s
