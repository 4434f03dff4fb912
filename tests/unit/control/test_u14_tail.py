"""The time from the last step of a job to its end is measured, and is part of what is learned."""

from pathlib import Path

from tests.unit.control.memory import Bench, play
from tests.unit.control.test_end_completion import completion
from treadle.control.jobs import id_of
from treadle.control.learning.metering import Meter
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded
from treadle.core.machine import Measurement
from treadle.wire.jobs import State


def test_the_time_after_the_last_step_is_measured() -> None:
    meter = Meter()
    meter.begin("a", 1, 1, 0.0, 100.0)
    for step, now in ((0, 101.0), (99, 115.0)):
        gauge = meter.see("a", step, 100.0, now)
    assert gauge is not None
    assert gauge.tail_s(28.0) is None
    for now in (116.0, 120.0):
        gauge = meter.see("a", 100, 100.0, now)
    assert gauge is not None
    assert gauge.tail_s(28.0) == 12.0


def test_u14_the_end_of_an_attempt_says_how_long_it_ran_after_its_steps(tmp_path: Path) -> None:
    """It began at 1,000 s, its last step was seen 16 s later, and it ran for 28 s."""

    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
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

    play(story, tmp_path)
