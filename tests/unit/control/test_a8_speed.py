"""A8: the speed of a job does not depend on when its last words were read."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play
from treadle.control.jobs import CodeCheck, EndCompletion
from treadle.core.attempt import How, LastProgress
from treadle.core.events import AttemptEnded
from treadle.failures.rules import shipped
from treadle.testing.clocks import ManualClock
from treadle.wire.jobs import State

RUNS = State.RUNNING


def test_a8_the_speed_of_what_was_read_after_the_end_is_up_to_the_end(tmp_path: Path) -> None:
    """60 steps in 60 s; the controller was down at the end and read the last one 20 s later."""

    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, RUNS)
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
            code=CodeCheck(lambda _: None),
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

    play(story, tmp_path)
