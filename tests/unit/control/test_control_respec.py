"""What was learned reaches jobs that wait, and a long queue of one kind makes no step long."""

from collections.abc import Sequence

from tests.unit.control.memory import HOME, ME, Bench, playing
from tests.unit.control.test_control_on_memory import check_replay, rebuilt
from treadle.control.jobs.respec import A_LOOK, AT_ONCE, LIVE_CHANGE_S
from treadle.core.attempt import LastProgress
from treadle.core.events import Event, JobProgressed, JobsLearned, JobStarted, JobUpdated
from treadle.core.job import JobId
from treadle.core.sighting import Load, Sighting
from treadle.models.learning.kinds import by_command
from treadle.models.learning.outcome import Outcome
from treadle.wire.jobs import JobRequest, State

MEMBERS = 500


@playing(devices=1)
async def test_learning_from_one_job_changes_a_bounded_number_of_others_at_a_time(
    here: Bench,
) -> None:
    """1. A job runs and 500 of its kind wait. 2. One of the kind is learned. 3. A few are told in
    that step, more in each look, none twice, and the one that runs is among them."""
    context = here.live.context
    request = JobRequest(command=("forever",), array=f"0-{MEMBERS - 1}")
    jobs = (await here.live.submit(ME, request)).jobs
    await here.reached(jobs[0], State.RUNNING)
    await here.settle()
    respec, now = context.commit.respec, context.clock.now()
    assert respec.at_once(now) == []
    context.learner.learn(
        by_command("me", "", ("forever",), folder=HOME), Outcome(1, 50.0, whole=True)
    )
    first = respec.at_once(now)
    assert respec.at_once(now) == [], "the rest waits for a look"
    told = _told(first)
    assert len(told) == AT_ONCE
    assert jobs[0] in told
    written = len(first)
    while len(told) < MEMBERS:
        facts = respec.in_a_look((), now)
        more = _told(facts)
        assert 0 < len(more) <= A_LOOK
        told += more
        written += len(facts)
    assert written <= 8, "one fact for all that wait, in each look"
    assert sorted(told) == sorted(jobs)
    assert respec.in_a_look((), now) == []


def _told(facts: Sequence[Event]) -> list[JobId]:
    """The jobs that the scheduler is told about."""
    running = [fact.spec.id for fact in facts if isinstance(fact, JobUpdated)]
    return running + [job for fact in facts if isinstance(fact, JobsLearned) for job in fact.jobs]


@playing(devices=1)
async def test_a_lesson_about_many_that_wait_is_short_and_replay_learns_the_same(
    here: Bench,
) -> None:
    """A lesson about 500 jobs took 713 bytes of the journal for each; now it is a few for each."""
    context = here.live.context
    request = JobRequest(command=("forever",), array=f"0-{MEMBERS - 1}")
    jobs = (await here.live.submit(ME, request)).jobs
    await here.reached(jobs[0], State.RUNNING)
    here.memory.finish(jobs[0])
    await here.reached(jobs[0], State.SUCCEEDED)
    while any(context.scheduler.jobs[job].spec.iterations == 3600.0 for job in jobs[2:]):
        context.inbox.tell(*context.commit.respec.in_a_look((), context.clock.now()))
        await here.settle()
    lines = context.store.lines(0, kinds=("JobsLearned",), limit=1000)
    assert sum(len(line.body) for line in lines) < 25 * MEMBERS
    again = rebuilt(here).scheduler.jobs
    assert all(again[job].spec == row.spec for job, row in context.scheduler.jobs.items())


@playing()
async def test_a_running_job_that_outlives_its_estimate_is_expected_to_go_on(here: Bench) -> None:
    context = here.live.context
    job = await here.runs(estimate_s=0.01)
    await here.settle()
    before = context.scheduler.jobs[job]
    now = context.clock.now() + 100.0
    assert before.remaining_at(now) == 0.0
    found = context.commit.respec.in_a_look([before], now)
    (spec,) = [fact.spec for fact in found if isinstance(fact, JobUpdated)]
    assert spec.iterations > 50.0, "a job that ran 100 s goes on for about as long again"


@playing(devices=2)
async def test_the_stall_of_a_change_is_what_the_next_change_of_that_job_costs(here: Bench) -> None:
    """Not only that of later jobs of its kind, and not that of other jobs."""
    context = here.live.context
    job, other = await here.submit("forever"), await here.submit("forever")
    await here.reached(job, State.RUNNING)
    await here.reached(other, State.RUNNING)
    await here.settle()
    row = context.scheduler.jobs[job]
    assert row.spec.profile.resize_s == 0.0
    started = JobStarted(job, row.action, row.iterations_done, 1.0, ("size",), 1, stall_s=0.25)
    context.inbox.tell(started)
    await here.settle()
    profile = context.scheduler.jobs[job].spec.profile
    assert (profile.resize_s, profile.restart_s) == (0.25, 0.0), "a stop is not that cheap"
    assert context.scheduler.jobs[other].spec.profile.resize_s == 0.0
    assert rebuilt(here).scheduler.jobs[job].spec == context.scheduler.jobs[job].spec


@playing(devices=1)
async def test_u2_a_running_job_teaches_its_speed_once_and_what_it_uses(here: Bench) -> None:
    """1. One job runs, one of its kind waits. 2. The first says its speed, and is seen alone for
    30 s. 3. The other has its curve, its load and its memory; to say it again teaches nothing."""
    context = here.live.context
    job, other = await here.submit("forever"), await here.submit("forever")
    await here.reached(job, State.RUNNING)
    await here.settle()
    row = context.scheduler.jobs[job]
    said = LastProgress(100.0, 1000.0, 2.0, share=0.1, share_per_s=0.002, measured_s=10.0)
    seen = Sighting(alone_s=30.0, load=Load(busy=0.4), device_memory_peak_gib=3.0)
    fact = JobProgressed(job, row.action, row.iterations_done, 1.0, said, seen)
    context.inbox.tell(fact)
    await here.settle()
    profile = context.scheduler.jobs[other].spec.profile
    assert (profile.curve, profile.measured) == (((1, 0.5),), (1,))
    assert (profile.busy, profile.memory_gib) == (0.4, 3.0)
    context.inbox.tell(JobProgressed(job, row.action, 0.0, 1.0, said))
    await here.settle()
    kind = by_command("me", "", ("forever",), folder=HOME).kinds[0]
    history = context.learner.profiles.knowledge.history(kind)
    assert history is not None
    assert [run.step_s for run in history.looks if run.step_s] == [0.5]
    check_replay(here)


@playing()
async def test_a_job_that_can_be_resized_as_it_runs_is_not_taken_to_need_a_restart(
    here: Bench,
) -> None:
    words = ("announce", "size", ";", "forever")
    job = await here.runs(*words, devices="1..4", resumable=True, ranks="one")
    await here.settle()
    spec = here.live.context.scheduler.jobs[job].spec
    assert (spec.profile.resize_s, spec.profile.restart_s) == (LIVE_CHANGE_S, 0.0)
