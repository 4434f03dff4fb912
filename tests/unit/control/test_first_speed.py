"""The first speed of a job at a size reaches policies at once."""

from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play
from treadle.control.learning.progress import TELL_S, ProgressWatch
from treadle.core.events import Event, JobProgressed
from treadle.testing.clocks import ManualClock
from treadle.wire.jobs import State


def test_the_first_speed_at_a_size_is_told_at_once_and_later_ones_now_and_then(
    tmp_path: Path,
) -> None:
    """A report each second: the scheduler hears the first, the first with a speed, and one every
    few seconds after that."""

    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
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

    play(story, tmp_path)
