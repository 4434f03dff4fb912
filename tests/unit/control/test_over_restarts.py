"""What a job keeps over a restart of the controller: its progress and its turn."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.json import encode

from tests.unit.control.memory import HOME, ME, Bench, play_on
from tests.unit.control.test_control_on_memory import check_replay
from tests.unit.control.test_estimates import teach
from treadle.control.learning import JobLearner, Profiles, ProgressWatch, Question
from treadle.control.learning.metering import Gauge
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device, Node
from treadle.core.events import Event
from treadle.core.job import Job, JobSpec
from treadle.core.job_report import Report
from treadle.core.lifecycle import Phase
from treadle.engines.memory_world import MemoryWorld
from treadle.models.learning.kind_history import History, Run
from treadle.models.learning.kinds import by_command
from treadle.models.learning.outcome import Outcome
from treadle.policies.live.decide import remembered
from treadle.policies.live.reasons import patience_of
from treadle.store.rows import ProfileRow
from treadle.wire.jobs import State


def world() -> MemoryWorld:
    return MemoryWorld.of(Node("here", 1, "none"))


async def step_of(here: Bench, job: str) -> float | None:
    progress = (await here.live.job(job)).job.progress
    return None if progress is None else progress.step


def test_u14_a_job_that_reports_is_as_far_after_a_restart_as_before(tmp_path: Path) -> None:
    """The second report comes too soon after the first to be on record by itself."""
    there = world()

    async def before(here: Bench) -> None:
        job = await here.runs()
        for step in (10.0, 60.0):
            await here.live.report(ME, job, Report(step=step, total=100.0))
        await here.settle()
        assert await step_of(here, job) == 60.0

    async def after(here: Bench) -> None:
        assert await step_of(here, "1") == 60.0

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


def test_a_paused_job_is_as_far_after_a_restart_as_before(tmp_path: Path) -> None:
    """Its reports came faster than they are recorded, and it makes no more."""
    there = world()

    async def before(here: Bench) -> None:
        job = await here.runs()
        for step in (10.0, 60.0):
            await here.live.report(ME, job, Report(step=step, total=100.0))
        await here.live.pause(ME, job)
        await here.settle()
        assert await step_of(here, job) == 60.0

    async def after(here: Bench) -> None:
        await here.settle()
        assert here.state("1") is State.PAUSED
        assert await step_of(here, "1") == 60.0

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


def test_the_speed_of_a_job_that_is_paused_teaches_of_its_size_and_goes_on_after_a_restart(
    tmp_path: Path,
) -> None:
    """1. A job on two devices says its speed as it is paused; what it said is heard after that.
    2. Another daemon. 3. It is resumed, and says more."""
    there = MemoryWorld.of(Node("here", 2, "none"))

    async def says(here: Bench, *steps: float) -> None:
        for step in steps:
            await here.live.report(ME, "1", Report(step=step, total=100.0))
            gauge = here.live.context.learner.gauge("1")
            assert gauge is not None
            gauge.from_at -= 6.0  # as if that had been a while ago: long enough for a speed

    async def before(here: Bench) -> None:
        await here.runs(devices="2")
        await says(here, 10.0, 30.0, 60.0)
        await here.live.pause(ME, "1")
        await here.settle()

    async def after(here: Bench) -> None:
        await here.settle()
        assert here.state("1") is State.PAUSED
        await here.live.resume(ME, "1")
        await here.reached("1", State.RUNNING)
        await says(here, 70.0, 90.0)
        await here.settle()
        progress = (await here.live.job("1")).job.progress
        assert progress is not None
        assert progress.per_s is not None
        kind = by_command(ME.user, "", ("forever",), folder=HOME).kinds[0]
        history = here.live.context.learner.profiles.knowledge.history(kind)
        assert history is not None
        assert {run.size for run in history.rows} == {2}
        other = await here.submit("forever", devices="1")
        assert here.live.context.scheduler.jobs[other].spec.profile.measured == (2,)

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


def test_u14_what_a_job_prints_is_read_before_anyone_can_ask(tmp_path: Path) -> None:
    there = world()

    async def before(here: Bench) -> None:
        await here.runs()
        await here.settle()
        (attempt,) = there.attempts.values()
        attempt.write(0, b"step 70/100\n")  # and the daemon leaves before it looks

    async def after(here: Bench) -> None:
        assert await step_of(here, "1") == 70.0

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


def test_an_absurd_report_of_one_job_costs_no_other_its_progress(tmp_path: Path) -> None:
    """1. A job says 0 of 1e15, then 1e-300. 2. Another is at step 60. 3. The daemon restarts."""
    there = MemoryWorld.of(Node("here", 2, "none"))

    async def before(here: Bench) -> None:
        absurd, usual = await here.submit("forever"), await here.submit("forever")
        for job in (absurd, usual):
            await here.reached(job, State.RUNNING)
        await here.live.report(ME, absurd, Report(step=0.0, total=1e15))
        await here.live.report(ME, usual, Report(step=10.0, total=100.0))
        for job in (absurd, usual):
            gauge = here.live.context.learner.gauge(job)
            assert gauge is not None
            gauge.from_at -= 3.0  # as if that had been a while ago: long enough for a speed
        await here.live.report(ME, absurd, Report(step=1e-300, total=1e15))
        await here.live.report(ME, usual, Report(step=60.0, total=100.0))
        await here.settle()
        assert await step_of(here, usual) == 60.0

    async def after(here: Bench) -> None:
        assert await step_of(here, "2") == 60.0
        assert await step_of(here, "1") == 1e-300

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


def test_a_report_that_is_refused_is_not_heard() -> None:
    """The belief knows no speed of the job at its size, so that its work cannot be computed."""
    learner, told = JobLearner(), list[Event]()
    row = Job(JobSpec("a", 100.0), 0, Phase.RUNNING, 0.0, 0.0, Allocation((Device("n0", 0),)))
    learner.meter.begin("a", 0, 1, 0.0, 0.0)
    clock = SimpleNamespace(now=lambda: 10.0)
    watch = ProgressWatch(
        learner,
        cast("Any", SimpleNamespace(tenancy=SimpleNamespace(tenants={}))),
        cast("Any", SimpleNamespace(alone=lambda spec, size: 0.0)),
        cast("Any", clock),
        engine=cast("Any", None),
        attempt=lambda _: None,
        spec=lambda job: job.spec,
        tell=told.append,
    )
    watch.hear(row, 10.0, 100.0, loss=None, source="report")
    before, heard, clock.now = learner.gauge("a"), learner.progress("a"), lambda: 20.0
    before = replace(cast("Gauge", before))
    told.clear()
    with pytest.raises(ZeroDivisionError):
        watch.hear(row, 20.0, 100.0, loss=None, source="report")
    assert (learner.gauge("a"), learner.progress("a")) == (before, heard)
    assert told == []


def test_u14_the_first_step_of_a_job_that_reports_is_timed_by_its_report(tmp_path: Path) -> None:
    """1. It reports between two looks at it. 2. A controller that did not see it start says
    nothing of its first step."""
    there = world()
    there.busy["1"] = 0.5

    async def first_step_s(here: Bench) -> float | None:
        while not (found := (await here.live.job_history("1")).attempts):
            look_at(here)
        return found[-1].first_step_s

    def look_at(here: Bench) -> None:
        context = here.live.context
        now = context.clock.now()
        measured = context.engine.measurements()
        context.learner.seen.see(measured, {}, {}, now=now, wall_at=now)

    async def before(here: Bench) -> None:
        job = await here.runs()
        await here.live.report(ME, job, Report(step=1.0, total=100.0))
        latest = here.live.context.clock.now()
        found = await first_step_s(here)
        assert found is not None
        began_at = here.live.context.scheduler.jobs[job].since_at
        assert 0 < found <= latest - began_at

    async def after(here: Bench) -> None:
        await here.live.report(ME, "1", Report(step=2.0, total=100.0))
        assert await first_step_s(here) is None

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


def test_a_checkpoint_with_every_report_is_journalled_seldom_and_the_last_is_not_lost(
    tmp_path: Path,
) -> None:
    """1. Ten reports follow one another, each with a new checkpoint. 2. The daemon restarts. 3. The
    job fails: what is safe is its last checkpoint."""
    there = world()

    async def before(here: Bench) -> None:
        job = await here.runs(resumable=True)
        for step in range(10, 20):
            await here.live.report(ME, job, Report(step=step, total=100.0, checkpoint=step))
        await here.settle()
        lines = here.live.context.store.lines(0)
        assert sum(line.kind == "JobProgressed" for line in lines) <= 2

    async def after(here: Bench) -> None:
        assert here.live.context.jobs.records["1"].checkpoint == 0.19

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


# -- A gang keeps its turn when the daemon restarts ------------------------------------------------


async def overtaken(here: Bench, times: int) -> str:
    """A gang of two behind a long job on one of two devices; so many later jobs have ended."""
    teach(here, "steady", *[600.0] * 5)
    await here.runs(model="steady")
    gang = await here.submit("forever", devices="2", model="steady")
    await here.settle()
    for _ in range(times):
        await here.reached(await here.submit("sleep", "0"), State.SUCCEEDED)
        await here.settle()
    return gang


def overtakes(here: Bench, job: str) -> object:
    """How many later jobs have started, as the next reservation counts them."""
    context = here.live.context
    scheduler = context.scheduler
    last, snapshot = remembered(scheduler.memory), scheduler.snapshot(context.clock.now())
    found = patience_of(context.belief, last, snapshot, scheduler.jobs[job])
    return found.numbers["overtakes"]


def test_u12_devices_are_kept_for_a_gang_after_a_restart(tmp_path: Path) -> None:
    there = MemoryWorld.of(Node("here", 2, "none"))
    gangs = []

    async def before(here: Bench) -> None:
        gangs.append(await overtaken(here, 4))
        why = await here.live.why(gangs[0])
        assert (why.code, why.numbers["devices"]) == ("reservation", 2)

    async def after(here: Bench) -> None:
        await here.settle()
        why = await here.live.why(gangs[0])
        assert (why.code, why.numbers["devices"]) == ("reservation", 2)
        teach(here, "long", *[6000.0] * 5)
        small = await here.submit("forever", model="long")
        await here.settle()
        assert here.state(small) is State.PENDING

    play_on(there, before, tmp_path, policy="afs")
    play_on(there, after, tmp_path, policy="afs")


def test_u12_overtakings_are_counted_on_after_a_restart(tmp_path: Path) -> None:
    there = MemoryWorld.of(Node("here", 2, "none"))
    gangs = []

    async def before(here: Bench) -> None:
        gangs.append(await overtaken(here, 2))

    async def after(here: Bench) -> None:
        await here.settle()
        assert overtakes(here, gangs[0]) == 2

    play_on(there, before, tmp_path, policy="afs")
    play_on(there, after, tmp_path, policy="afs")


def test_a_gang_keeps_its_count_when_a_node_goes_and_returns(tmp_path: Path) -> None:
    """1. A gang of all devices is overtaken twice. 2. A node goes and comes back; meanwhile one
    more job starts. 3. The controller starts again: the count is the same.
    """
    spare = Node("spare", 1, "none")
    there = MemoryWorld.of(Node("here", 2, "none"), spare)
    gangs = []

    async def before(here: Bench) -> None:
        teach(here, "steady", *[600.0] * 5)
        await here.runs(model="steady")
        gangs.append(await here.submit("forever", devices="3", model="steady"))
        for _ in range(2):
            await here.reached(await here.submit("sleep", "0"), State.SUCCEEDED)
            await here.settle()
        assert overtakes(here, gangs[0]) == 2
        here.memory.lose_node("spare")
        await here.settle()
        assert (await here.live.why(gangs[0])).code == "away"
        await here.reached(await here.submit("sleep", "0"), State.SUCCEEDED)
        here.memory.add_node(spare)
        await here.settle()
        assert overtakes(here, gangs[0]) == 3

    async def after(here: Bench) -> None:
        await here.settle()
        assert overtakes(here, gangs[0]) == 3

    play_on(there, before, tmp_path, policy="afs")
    play_on(there, after, tmp_path, policy="afs")


def test_a_lesson_that_cannot_be_worked_with_ends_no_controller() -> None:
    """Two speeds were stored, one of them of no device at all."""
    alike = by_command(ME.user, "", ("forever",), folder=HOME)
    runs = [Run(alike.arguments, size, step_s=0.5) for size in (0, 1)]
    profiles = Profiles([ProfileRow(alike.kinds[0], encode(History(looks=runs, ended=3)), 0.0)])
    assert not profiles.ask(Question(alike, 1)).known
    profiles.begin("1", Question(alike, 1), now=0.0, age_s=0.0)
    profiles.observe(alike, Outcome(1, 10.0, whole=True), job="1")
    assert profiles.step_alone_s(alike, 1) is None
    assert profiles.step_expected_s(alike, 1) is None


def test_a_controller_that_fails_within_a_step_writes_nothing_of_it(tmp_path: Path) -> None:
    """1. A job runs; as another starts, the learner fails. 2. The next controller has both."""
    there = MemoryWorld.of(Node("here", 2, "none"))

    async def before(here: Bench) -> None:
        def fails(*_: object, **__: object) -> None:
            raise RuntimeError("the learner fails")

        await here.runs()
        here.live.context.learner.profiles.begin = fails  # type: ignore[method-assign]
        await here.submit("forever")
        await asyncio.wait_for(here.live.stopped.wait(), 60.0)

    async def after(here: Bench) -> None:
        for job in ("1", "2"):
            await here.reached(job, State.RUNNING)
            assert len((await here.live.job(job)).attempts) == 1
            here.memory.finish(job)
            await here.reached(job, State.SUCCEEDED)
        await here.settle()
        check_replay(here)

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


def test_what_users_used_is_known_after_a_restart(tmp_path: Path) -> None:
    """The job ran for two hours before; its user still has a job, so it stands in the queue."""
    there = world()

    async def before(here: Bench) -> None:
        await here.runs()

    async def after(here: Bench) -> None:
        [user] = (await here.live.queue()).users
        assert (user.user, user.holds, user.entitled) == ("me", 1, 1.0)
        assert user.used_h == pytest.approx(2.0 * 0.5 ** (1 / 24), rel=0.1)  # by spans of hours

    play_on(there, before, tmp_path)
    with sqlite3.connect(tmp_path / "treadle.db") as store:
        store.execute("UPDATE attempts SET started_at = started_at - 7200")
    play_on(there, after, tmp_path)
