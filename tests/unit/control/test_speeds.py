"""Measured speeds live: by size, at first, where they vary, and whenever they are read."""

from dataclasses import replace
from math import inf
from random import Random

import pytest

from tests.unit.control.memory import HOME, ME, Bench, lesson, playing
from treadle.control.jobs import EndCompletion
from treadle.control.learning.metering import WINDOWS_MAX, Gauge, Meter
from treadle.control.learning.progress import TELL_S, ProgressWatch
from treadle.core.attempt import How, LastProgress
from treadle.core.events import AttemptEnded, Event, JobProgressed
from treadle.core.job_report import Report
from treadle.failures.rules import shipped
from treadle.models.learning.expectation import Basis, Remaining, remaining
from treadle.models.learning.kinds import by_command
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.testing.clocks import ManualClock
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import Role, Who

DDP = ("ddp.py",)


def teach(here: Bench, lengths: dict[int, float]) -> None:
    """Whole runs of the command at these sizes."""
    keys = by_command(ME.user, "", DDP, folder=HOME)
    for size, length_s in lengths.items():
        lesson(here.live.context.learner.profiles, keys, size, length_s)


@pytest.mark.parametrize(("on_two_s", "sizes"), [(520.0, {8}), (1000.0, {1, 2})])
@playing(devices=8, policy="afs")
async def test_u2_sizes_beyond_those_seen_follow_how_it_scaled(
    here: Bench, on_two_s: float, sizes: set[int]
) -> None:
    """It ran on 1 and 2 devices, twice as fast or not: on 8 idle ones it is given all, or few."""
    teach(here, {1: 1000.0, 2: on_two_s})
    job = await here.runs(*DDP, devices="1..8", resumable=True)
    assert here.live.context.scheduler.jobs[job].size in sizes


@playing(devices=1)
async def test_u2_jobs_that_wait_know_what_the_first_of_their_kind_taught(here: Bench) -> None:
    """1. Of ten jobs of one kind nothing is known, one runs. 2. It ends. 3. The others are known,
    and a job of another kind is as it was."""
    first = await here.runs()
    others = [await here.submit("forever") for _ in range(9)]
    stranger = await here.submit("forever", model="other")
    jobs = here.live.context.scheduler.jobs
    await here.settle()
    assert {jobs[job].spec.iterations for job in (*others, stranger)} == {3600.0}
    here.memory.finish(first)
    await here.reached(first, State.SUCCEEDED)
    await here.settle()
    assert all(jobs[job].spec.iterations < 60.0 for job in others)
    assert jobs[stranger].spec.iterations == 3600.0


@pytest.mark.parametrize(("step", "state"), [(896, State.PENDING), (400, State.RUNNING)])
@playing(devices=2, policy="max-min")
async def test_u3_a_job_is_resized_in_the_middle_of_its_work_and_not_in_its_last_steps(
    here: Bench, step: int, state: State
) -> None:
    """A job of 900 steps holds both devices; another that would take one of them waits."""
    job = await here.runs(devices="1..2", resumable=True, ranks="one")
    own = Who(user="me", role=Role.VIEWER, job=job)
    await here.live.report(own, job, Report(step=step, total=900))
    await here.settle()
    other = await here.submit("forever", devices="1")
    await here.settle()
    await here.reached(other, state)
    if state is State.PENDING:
        assert (await here.live.job(job)).job.attempts == 1
        assert (await here.live.why(other)).code == "cost"


@playing()
async def test_u4_a_job_that_says_its_steps_ends_when_they_are_done_whatever_its_kind_took(
    here: Bench,
) -> None:
    """Jobs like it took 1000 s, and it has 600 steps left at 2 a second: the list and `why` say
    300 s, give or take what such a speed is worth."""
    job = await here.runs()
    lesson(
        here.live.context.learner.profiles,
        by_command("me", "", ("forever",), folder=HOME),
        1,
        1000.0,
    )
    said = LastProgress(400.0, 1000.0, 2.0, measured_s=100.0)
    here.live.context.learner.hear(job, said)
    listed = (await here.live.jobs()).jobs[0]
    why = await here.live.why(job)
    assert listed.end is not None
    assert listed.end == why.end
    assert (listed.end.low_s, listed.end.high_s) == (285.7, 315.0)
    assert listed.end.because == "from its steps"
    assert listed.progress is not None
    assert (listed.progress.step, listed.progress.eta_s) == (400.0, 300.0)


@playing()
async def test_u4_a_length_that_was_learned_is_cut_by_a_time_limit(here: Bench) -> None:
    teach(here, {1: 1000.0})
    request = JobRequest(command=DDP, time_limit_s=20.0)
    found = await here.live.dry_run(ME, request)
    assert found.length is not None
    assert (found.length.low_s, found.length.high_s) == (None, 20.0), "a bound, no estimate"
    assert (found.length.coverage, found.length.because) == (None, "its time limit")
    (note,) = found.notes
    assert note.startswith("its time limit of 20s will probably end it: it is expected to take")
    assert note.endswith("(from 1 run of this command)")
    enough = await here.live.dry_run(ME, replace(request, time_limit_s=5000.0))
    assert enough.notes == ()
    assert found.spec["iterations"] == 20.0


# -- The first speed of a job at a size reaches policies at once -----------------------------------


@playing()
async def test_the_first_speed_at_a_size_is_told_at_once_and_later_ones_now_and_then(
    here: Bench,
) -> None:
    """A report each second: the scheduler hears the first, the first with a speed, and one every
    few seconds after that."""
    job = await here.runs()
    context, clock, told = here.live.context, ManualClock(1000.0), list[Event]()
    row = context.scheduler.jobs[job]
    context.learner.begin(job, row.action, 1, share=0.0, now=1000.0)
    watch = ProgressWatch(
        context.learner,
        context.scheduler,
        context.belief,
        clock,
        engine=here.memory,
        attempt=lambda _: None,
        spec=lambda row: row.spec,
        tell=told.append,
    )
    heard = []
    for second in range(1, 9):
        clock.advance(1000.0 + second)
        watch.hear(row, 10.0 * second, 1000.0, loss=None, source="report")
        heard.append([fact for fact in told if isinstance(fact, JobProgressed)])
    assert TELL_S == 5.0
    assert [len(facts) for facts in heard] == [1, 1, 2, 2, 2, 2, 2, 3]
    first = heard[2][-1].progress
    assert first is not None
    assert first.per_s == pytest.approx(10.0)


# -- A8: the speed of a job does not depend on when its last words were read -----------------------


RUNS = State.RUNNING


@playing()
async def test_a8_the_speed_of_what_was_read_after_the_end_is_up_to_the_end(here: Bench) -> None:
    """60 steps in 60 s; the controller was down at the end and read the last one 20 s later."""
    job = await here.runs()
    context, clock = here.live.context, ManualClock(1080.0)
    context.learner.begin(job, 0, 1, share=0.0, now=1000.0)
    context.learner.meter.see(job, 10, 60, 1010.0)
    gauge = context.learner.meter.see(job, 60, 60, 1080.0)
    assert gauge is not None
    context.learner.hear(job, LastProgress(60, 60, 50 / 70, None, "log"))
    completion = EndCompletion(
        context.jobs,
        context.learner,
        context.scheduler,
        engine=here.memory,
        rules=shipped(),
        clock=clock,
        wall=lambda: 9080.0,
    )
    end = AttemptEnded(job, 0, 1, How.EXITED, 0, started_at=9000.0, ended_at=9060.0, ran_s=60.0)
    words = await completion.read(end)
    said = completion.complete(end, words).progress
    assert said is not None
    assert said.per_s == pytest.approx(1.0)
    assert said.measured_s == pytest.approx(50.0)
    both_late = completion.complete(replace(end, ended_at=9005.0), words).progress
    assert both_late is not None
    assert both_late.per_s is None


# -- Ranges of a job's end by its own steps: where its speed varies, and before it is measured -----


TOTAL = 4000.0


def measured(gauge: Gauge) -> LastProgress:
    share_per_s = gauge.share_per_s()
    per_s = None if share_per_s is None else share_per_s * (gauge.total or 0.0)
    return LastProgress(
        gauge.steps,
        gauge.total,
        per_s,
        share_per_s=share_per_s,
        measured_s=gauge.measured_s,
        speeds=gauge.speeds(),
    )


def left_of(said: LastProgress, ran: tuple[str, ...], new: tuple[str, ...]) -> Remaining:
    """What is left of a new job, where another took five seconds."""
    knowledge = Knowledge()
    outcome = Outcome(1, 5.0, whole=True)
    knowledge.observe(by_command("ann", "", ran), outcome)
    expected = knowledge.expect(by_command("ann", "", new), 1)
    return remaining(expected, 1.0, said=said)


QUICK, SLOW = ("python", "third.py", "--quick"), ("python", "third.py", "--slow")


def followed(seed: int) -> list[tuple[float, LastProgress]]:
    """A job that runs 2 to 6 steps a second, another number every 15 s; looked at each second."""
    random, meter = Random(seed), Meter()
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    now, step, per_s, seen = 0.0, 0.0, 4.0, []
    while step < TOTAL:
        if now % 15 == 0:
            per_s = random.uniform(2.0, 6.0)
        now, step = now + 1.0, min(TOTAL, step + per_s)
        gauge = meter.see("a", float(int(step)), TOTAL, now)
        assert gauge is not None
        seen.append((now, measured(gauge)))
    return seen


def test_a_range_by_steps_is_as_wide_as_the_speed_varied() -> None:
    held = ranges = 0
    for seed in range(20):
        seen = followed(seed)
        end_at = seen[-1][0]
        for now, said in seen[30:-30:10]:
            left = left_of(said, QUICK, SLOW)
            assert left.basis is Basis.STEPS
            held += left.span.low_s <= end_at - now <= left.span.high_s
            ranges += 1
    assert held / ranges >= 0.8


def test_a_steady_job_keeps_its_narrow_range() -> None:
    meter = Meter()
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    for now in range(1, 200):
        gauge = meter.see("a", 20.0 * now, TOTAL * 10, float(now))
        assert gauge is not None
        assert len(gauge.marks) <= WINDOWS_MAX
    assert gauge is not None
    span = left_of(measured(gauge), QUICK, SLOW).span
    assert (span.high_s - span.low_s) / span.low_s < 0.3


def test_speeds_of_another_company_are_forgotten() -> None:
    meter = Meter()
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    for now in range(1, 20):
        meter.see("a", 20.0 * now, TOTAL, float(now))
    gauge = meter.see("a", 400.0, TOTAL, 20.0, ("b",))
    assert gauge is not None
    assert gauge.marks == [(20.0, 0.1)]


def test_the_first_steps_of_a_job_overrule_one_run_with_other_words() -> None:
    """Two of a hundred steps in 1.2 s, where `--quick` took 5 s: a minute is within the range."""
    meter = Meter()
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    gauge = meter.see("a", 2.0, 100.0, 1.2)
    assert gauge is not None
    left = left_of(measured(gauge), QUICK, SLOW)
    assert left.basis is Basis.FIRST_STEPS
    assert left.span.low_s == pytest.approx(9.8)
    assert left.span.high_s == pytest.approx(176.4)
    assert left_of(measured(gauge), QUICK, QUICK).basis is Basis.RUNS


def test_steps_that_an_earlier_run_did_are_no_speed() -> None:
    """It resumes by itself with epoch 45 of 90: these were not done in two seconds."""
    meter = Meter()
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    gauge = meter.see("a", 45.0, 90.0, 2.0)
    assert gauge is not None
    assert gauge.speeds() is None
    assert left_of(measured(gauge), QUICK, SLOW).basis is not Basis.FIRST_STEPS


@pytest.mark.parametrize(
    ("ran", "runs_s", "age_s", "low_below_s"),
    [
        (QUICK, (6.0, 7.0), 4.0, 3.0),  # It may stop early as well.
        (QUICK, (6.0, 7.0), 9.0, inf),  # It went on longer than these.
        (QUICK, (30.0, 40.0), 4.0, inf),  # They did all their steps, perhaps a little faster.
        (SLOW, (6.0, 7.0), 4.0, inf),  # Other commands stop where they do.
    ],
)
def test_a_range_by_steps_allows_for_runs_of_the_command_that_stopped_early(
    ran: tuple[str, ...], runs_s: tuple[float, ...], age_s: float, low_below_s: float
) -> None:
    """It says 10 of 100 steps at 2.5 steps a second: 36 s would be left."""
    knowledge = Knowledge()
    for seconds in runs_s:
        knowledge.observe(by_command("ann", "", ran), Outcome(1, seconds, whole=True))
    expected = knowledge.expect(by_command("ann", "", QUICK), 1)
    left = remaining(expected, age_s, said=LastProgress(10.0, 100.0, 2.5, measured_s=4.0))
    assert left.span.high_s > 36.0
    assert left.basis is (Basis.STEPS if low_below_s == inf else Basis.STOPS_EARLY)
    if low_below_s < inf:
        assert left.span.low_s < low_below_s
        assert left.mean_s < 10.0
    else:
        assert left.span.low_s > 20.0


@pytest.mark.parametrize(
    ("ran", "runs_s", "age_s", "high_above_s"),
    [
        (QUICK, (28.0, 29.0, 28.5), 13.0, 15.0),  # An evaluation of 12 s followed.
        (QUICK, (28.0, 29.0), 13.0, -inf),  # So few may have been slower by chance.
        (QUICK, (28.0, 29.0, 28.5), 60.0, -inf),  # It went on longer than these.
        (QUICK, (16.5, 17.0, 17.0), 13.0, -inf),  # They did all their steps, and ended.
        (SLOW, (28.0, 29.0, 28.5), 13.0, -inf),  # Other commands go on as they do.
    ],
)
def test_a_range_by_steps_allows_for_runs_of_the_command_that_went_on(
    ran: tuple[str, ...], runs_s: tuple[float, ...], age_s: float, high_above_s: float
) -> None:
    """It says 80 of 100 steps at 5 steps a second: 4 s would be left."""
    knowledge = Knowledge()
    for seconds in runs_s:
        knowledge.observe(by_command("ann", "", ran), Outcome(1, seconds, whole=True))
    expected = knowledge.expect(by_command("ann", "", QUICK), 1)
    left = remaining(expected, age_s, said=LastProgress(80.0, 100.0, 5.0, measured_s=12.0))
    assert left.span.low_s < 4.0 < left.span.high_s
    assert left.basis is (Basis.STEPS if high_above_s == -inf else Basis.GOES_ON)
    if high_above_s > -inf:
        assert left.span.high_s > high_above_s
        assert left.mean_s > 10.0
    else:
        assert left.span.high_s < 6.0


def test_what_follows_the_last_step_is_known_from_runs_of_the_same_command() -> None:
    """Two runs went on for 15 s after their last step, with an evaluation."""
    knowledge, done = Knowledge(), LastProgress(100.0, 100.0, 25.0, measured_s=4.0)
    nothing = knowledge.expect(by_command("ann", "", QUICK), 1)
    assert remaining(nothing, 5.0, said=done).basis is Basis.STEPS
    for _ in range(2):
        knowledge.observe(by_command("ann", "", QUICK), Outcome(1, 19.0, whole=True))
    left = remaining(knowledge.expect(by_command("ann", "", QUICK), 1), 5.0, said=done)
    assert left.span.low_s <= 14.0 <= left.span.high_s
    assert left.basis is Basis.RUNS
