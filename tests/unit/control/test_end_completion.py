"""The end of an attempt, completed: its output is read in one go, and what is known is kept."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play
from treadle.control.jobs import CodeCheck, EndCompletion, parting
from treadle.control.jobs.company_faults import server_failed
from treadle.core.attempt import How, LastProgress, Verdict
from treadle.core.events import AttemptEnded, JobsLearned, JobUpdated
from treadle.core.job import Job, Profile
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import Output
from treadle.core.ports import Engine
from treadle.engines.memory import MemoryEngine
from treadle.failures.rules import shipped
from treadle.testing.builders import job as spec_of
from treadle.testing.clocks import ManualClock
from treadle.wire.jobs import State


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
        self,
        attempt: AttemptId,
        rank: int,
        *,
        offset: int = 0,
        limit: int = 65536,
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
        code=CodeCheck(lambda _: None),
    )


@pytest.mark.parametrize(
    ("text", "step", "loss"),
    [(b"step 40/60 loss=0.25\n", 40, 0.25), (b"step 40/60\n", 40, 0.5)],
    ids=["a newer loss", "none"],
)
def test_output_is_read_at_once_for_the_verdict_and_for_progress(
    tmp_path: Path, text: bytes, step: float, loss: float
) -> None:
    """The reads wait for each other: one after the other, neither would return. A tail without a
    loss leaves the one that is known."""

    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
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

    play(story, tmp_path)


def test_a_job_that_is_kept_apart_keeps_what_was_learned_in_the_same_step() -> None:
    row = Job(spec_of("a"), 0, Phase.RUNNING, 0.0, 0.0, None)
    end = AttemptEnded("a", 3, 1, How.EXITED, 1, beside=("b",))
    lesson = JobsLearned(("a", "c"), 250.0, Profile(busy=0.5))
    (fact,) = parting(end, row, [lesson], ())
    assert isinstance(fact, JobUpdated)
    assert fact.spec == replace(
        row.spec, iterations=250.0, profile=Profile(busy=0.5), exclusive=True
    )


@pytest.mark.parametrize(
    ("rule", "mps_failed", "blameless"),
    [("gpu-mps", False, True), ("gpu-out-of-memory", False, False), ("gpu-xid", True, True)],
)
def test_a_job_that_the_mps_server_ended_is_not_at_fault(
    rule: str, mps_failed: bool, blameless: bool
) -> None:
    verdict = Verdict("resource", rule, "It failed.", "retry")
    end = AttemptEnded("a", 3, 1, How.EXITED, 1, verdict=verdict, mps_failed=mps_failed)
    assert server_failed(end) is blameless
