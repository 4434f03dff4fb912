"""An urgent job stops no more than it needs, and nothing that would not help it."""

from pathlib import Path

from tests.unit.control.memory import Bench, play
from treadle.wire.jobs import State


def test_an_urgent_job_stops_no_more_jobs_than_it_needs(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        before = [await here.submit("forever", resumable=True) for _ in range(4)]
        for job in before:
            await here.reached(job, State.RUNNING)
        urgent = await here.submit("forever", priority=10)
        await here.reached(urgent, State.RUNNING)
        await here.settle()
        assert sorted(here.state(job) for job in before) == [State.PENDING, *[State.RUNNING] * 3]

    play(story, tmp_path, devices=4, policy="srtf")


def test_a_job_is_not_stopped_where_that_would_not_help_the_urgent_one(
    tmp_path: Path,
) -> None:
    """The gang also needs the device of a job that cannot resume."""

    async def story(here: Bench) -> None:
        for resumable in (False, True):
            job = await here.submit("forever", resumable=resumable)
            await here.reached(job, State.RUNNING)
        gang = await here.submit("forever", devices="2", priority=10)
        await here.settle()
        assert here.state(gang) is State.PENDING
        assert here.state(job) is State.RUNNING
        assert (await here.live.why(gang)).code == "devices"

    play(story, tmp_path, devices=2, policy="srtf")
