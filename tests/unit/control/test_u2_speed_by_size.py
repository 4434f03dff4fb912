"""Speed by size and restarts, live: what was measured decides, what was not is tried once."""

from dataclasses import replace
from pathlib import Path

from tests.unit.control.memory import HOME, ME, Bench, play
from treadle.control.learning import keys_of
from treadle.core.attempt import LastProgress
from treadle.core.job_report import Report
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import Role, Who

DDP = ("ddp.py",)


def teach(here: Bench, lengths: dict[int, float]) -> None:
    """Whole runs of the command at these sizes."""
    keys = keys_of(ME.user, "", DDP, folder=HOME)
    for size, length_s in lengths.items():
        here.live.context.learner.profiles.learn(keys, size, length_s)


async def size_given(here: Bench) -> int:
    job = await here.submit(*DDP, devices="1..8", resumable=True)
    await here.reached(job, State.RUNNING)
    return here.live.context.scheduler.jobs[job].size


def test_u2_sizes_beyond_those_seen_are_expected_to_be_faster(tmp_path: Path) -> None:
    """It ran on 1 and 2 devices and was twice as fast: on 8 idle ones it is given all."""

    async def story(here: Bench) -> None:
        teach(here, {1: 1000.0, 2: 520.0})
        assert await size_given(here) == 8

    play(story, tmp_path, devices=8, policy="afs")


def test_u2_a_job_that_was_seen_not_to_scale_is_left_at_its_size(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        teach(here, {1: 1000.0, 2: 1000.0})
        assert await size_given(here) <= 2

    play(story, tmp_path, devices=8, policy="afs")


def test_u2_jobs_that_wait_know_what_the_first_of_their_kind_taught(tmp_path: Path) -> None:
    """1. Of ten jobs of one kind nothing is known, one runs. 2. It ends. 3. The others are known,
    and a job of another kind is as it was."""

    async def story(here: Bench) -> None:
        first = await here.submit("forever")
        await here.reached(first, State.RUNNING)
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

    play(story, tmp_path, devices=1)


def test_u3_a_job_in_its_last_steps_is_not_resized(tmp_path: Path) -> None:
    """A job at step 896 of 900 holds both devices; another that would take one of them waits."""

    async def story(here: Bench) -> None:
        job = await here.submit("forever", devices="1..2", resumable=True, ranks="one")
        await here.reached(job, State.RUNNING)
        own = Who(user="me", role=Role.VIEWER, job=job)
        await here.live.report(own, job, Report(step=896, total=900))
        await here.settle()
        other = await here.submit("forever", devices="1")
        await here.settle()
        assert here.state(job) is State.RUNNING
        assert here.state(other) is State.PENDING
        assert (await here.live.job(job)).job.attempts == 1
        why = await here.live.why(other)
        assert why.code == "cost"

    play(story, tmp_path, devices=2, policy="max-min")


def test_u3_in_the_middle_of_its_work_it_is(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", devices="1..2", resumable=True, ranks="one")
        await here.reached(job, State.RUNNING)
        own = Who(user="me", role=Role.VIEWER, job=job)
        await here.live.report(own, job, Report(step=400, total=900))
        await here.settle()
        other = await here.submit("forever", devices="1")
        await here.reached(other, State.RUNNING)

    play(story, tmp_path, devices=2, policy="max-min")


def test_u4_a_job_that_says_its_steps_ends_when_they_are_done_whatever_its_kind_took(
    tmp_path: Path,
) -> None:
    """Jobs like it took 1000 s, and it has 600 steps left at 2 a second: the list and `why` say
    300 s, give or take what such a speed is worth."""

    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        here.live.context.learner.profiles.learn(
            keys_of("me", "", ("forever",), folder=HOME), 1, 1000.0
        )
        said = LastProgress(400.0, 1000.0, 2.0, measured_s=100.0)
        here.live.context.learner.hear(job, said)
        listed = (await here.live.jobs()).jobs[0]
        why = await here.live.why(job)
        assert listed.end is not None
        assert listed.end == why.end
        assert (listed.end.low_s, listed.end.high_s) == (285.0, 315.0)
        assert listed.end.because == "from its steps"
        assert listed.progress is not None
        assert (listed.progress.step, listed.progress.eta_s) == (400.0, 300.0)

    play(story, tmp_path)


def test_u4_a_length_that_was_learned_is_cut_by_a_time_limit(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
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

    play(story, tmp_path)
