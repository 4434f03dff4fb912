"""The end of an attempt: while it is stopped, after its training, and completed."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play, playing
from tests.unit.control.test_estimates import teach
from treadle.control.jobs import EndCompletion, parting
from treadle.core.actions import Action
from treadle.core.attempt import How, LastProgress
from treadle.core.cluster import Cluster
from treadle.core.events import (
    AttemptEnded,
    JobsLearned,
    JobStarted,
    JobSubmitted,
    JobUpdated,
    TrainingEnded,
)
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.job_report import Report
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import NodeView, Output
from treadle.core.ports import Engine
from treadle.core.scheduler import Scheduler
from treadle.engines.memory import MemoryEngine
from treadle.failures.rules import shipped
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.live.eligibility import OVER_S
from treadle.policies.registry import policy
from treadle.testing.builders import job as spec_of
from treadle.testing.clocks import ManualClock
from treadle.wire.jobs import State


@playing(devices=2)
async def test_u14_a_job_that_is_being_stopped_still_holds_its_devices(here: Bench) -> None:
    """1. One of two jobs is cancelled and does not end by itself. 2. Another one is to follow it,
    and a last one waits for the job that runs."""
    teach(here, "known", *[1000.0] * 5)
    stays = await here.runs()
    here.memory.hang(stays)
    await here.runs(model="known")
    await here.live.cancel(ME, stays)
    await here.reached(stays, State.STOPPING)
    await here.settle()
    status = here.live.status()
    assert (status.free, status.running, status.stopping) == (0, 1, 1)
    view = (await here.live.job(stays)).job
    assert view.devices == ("here:0",)
    why = await here.live.why(stays)
    assert (why.code, why.numbers["by"]) == ("leaving", "cancel")
    assert why.length is None, "it does not run to its end"
    follows = await here.submit("forever", model="known")
    last = await here.submit("forever", model="known")
    await here.settle()
    assert here.state(follows) is State.STARTING
    status = here.live.status()
    assert (status.running, status.starting, status.stopping, status.waiting) == (1, 1, 1, 1)
    why = await here.live.why(last)
    assert (why.code, why.numbers["free"]) == ("devices", 0)
    starting = await here.live.why(follows)
    assert (starting.code, starting.numbers["jobs"]) == ("releasing", (stays,))
    assert why.estimate is not None
    assert why.estimate.coverage == 0.8, "a job that is being stopped is no unknown"


def test_one_count_of_free_devices_while_a_job_is_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A job on three of four devices is cancelled, and does not end. Its processes are gone from
    its devices, as of a job that has ended on some of its nodes. 2. A job of four devices waits."""
    view = MemoryEngine.view

    def without_processes(engine: MemoryEngine) -> tuple[NodeView, ...]:
        return tuple(
            replace(node, devices=tuple(replace(d, state="free", jobs=()) for d in node.devices))
            for node in view(engine)
        )

    async def story(here: Bench) -> None:
        stays = await here.runs(devices="3")
        waits = await here.submit("forever", devices="4")
        here.memory.hang(stays)
        await here.live.hold(ME, waits)
        await here.live.cancel(ME, stays)
        await here.reached(stays, State.STOPPING)
        await here.settle()
        small = await here.submit("forever", devices="2")
        await here.reached(small, State.STARTING)
        monkeypatch.setattr(MemoryEngine, "view", without_processes)
        (node,) = here.live.nodes()
        free = [each.name for each in node.devices if each.state == "free"]
        assert {job for each in node.devices for job in each.jobs} == {stays, small}
        assert here.live.status().free == len(free)
        await here.live.release(ME, waits)
        await here.settle()
        (row,) = (await here.live.jobs(states=("PENDING",), limit=1)).jobs
        why = await here.live.why(waits)
        assert (why.code, why.numbers["free"], why.numbers["total"]) == ("devices", len(free), 4)
        assert (row.cause, row.because) == (why.code, why.sentence)

    play(story, tmp_path, devices=4)


# -- A job whose training is over is left alone until it ends by itself ----------------------------


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


def test_an_urgent_job_waits_for_its_end_a_minute_and_no_longer() -> None:
    scheduler = over()
    assert submit(scheduler, OVER_AT + 1.0, priority=10) == []
    assert scheduler.wake_at == pytest.approx(OVER_AT + OVER_S)
    assert [action.job for action in scheduler.decide(OVER_AT + OVER_S)] == ["7", "8"]


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


@playing()
async def test_a_live_job_says_so_in_why(here: Bench) -> None:
    job = await here.runs()
    action = here.live.context.scheduler.jobs[job].action
    here.memory._tell(TrainingEnded(job, action))
    await here.settle()
    why = await here.live.why(job)
    assert (why.code, why.numbers["late"]) == ("over", False)
    events = await here.live.events(after=0, limit=100)
    assert "job 1 has ended its training and is about to end" in [e.text for e in events.events]


@playing()
async def test_an_attempt_that_begins_from_scratch_is_not_shown_as_done(here: Bench) -> None:
    job = await here.runs(resumable=False, retries=3)
    await here.live.report(ME, job, Report(step=40.0, total=40.0))
    await here.settle()
    here.memory.finish(job, code=1)
    await here.settle()
    await here.reached(job, State.RUNNING)
    view = (await here.live.job(job)).job
    assert (view.attempts, view.progress) == (2, None)


# -- The end of an attempt, completed: its output is read in one go, and what is known is kept -----


class Printed(MemoryEngine):
    """An engine whose attempts printed this; a read returns once so many are under way."""

    text: bytes
    together: asyncio.Barrier

    @classmethod
    def over(cls, engine: MemoryEngine, text: bytes, together: int) -> "Printed":
        self = cls.__new__(cls)
        self.__dict__.update(engine.__dict__)
        self.text, self.together = text, asyncio.Barrier(together)
        return self

    async def output(
        self, attempt: AttemptId, rank: int, *, offset: int = 0, limit: int = 65536
    ) -> Output:
        await self.together.wait()
        return Output(0, self.text, len(self.text))


def completion(here: Bench, engine: Engine) -> EndCompletion:
    context = here.live.context
    return EndCompletion(
        context.jobs,
        context.learner,
        context.scheduler,
        engine=engine,
        rules=shipped(),
        clock=ManualClock(1080.0),
        wall=lambda: 9080.0,
    )


@pytest.mark.parametrize(
    ("text", "step", "loss"),
    [(b"step 40/60 loss=0.25\n", 40, 0.25), (b"step 40/60\n", 40, 0.5)],
    ids=["a newer loss", "none"],
)
@playing()
async def test_output_is_read_at_once_for_the_verdict_and_for_progress(
    here: Bench, text: bytes, step: float, loss: float
) -> None:
    """The reads wait for each other: one after the other, neither would return. A tail without a
    loss leaves the one that is known."""
    job = await here.runs()
    learner = here.live.context.learner
    learner.begin(job, 0, 1, share=0.0, now=1000.0)
    learner.hear(job, LastProgress(30, 60, 1.0, 0.5, "log"))
    engine = Printed.over(here.memory, text, together=2)
    end = AttemptEnded(job, 0, 1, How.EXITED, 1, codes=(1,), ended_at=9070.0, ran_s=60.0)
    ends = completion(here, engine)
    whole = ends.complete(end, await ends.read(end))
    assert whole.progress is not None
    assert (whole.progress.step, whole.progress.loss) == (step, loss)
    assert whole.verdict is not None


def test_a_job_that_is_kept_apart_keeps_what_was_learned_in_the_same_step() -> None:
    row = Job(spec_of("a"), 0, Phase.RUNNING, 0.0, 0.0, None)
    end = AttemptEnded("a", 3, 1, How.EXITED, 1, beside=("b",))
    lesson = JobsLearned(("a", "c"), 250.0, Profile(busy=0.5))
    (fact,) = parting(end, row, [lesson], ())
    assert isinstance(fact, JobUpdated)
    assert fact.spec == replace(
        row.spec, iterations=250.0, profile=Profile(busy=0.5), exclusive=True
    )
