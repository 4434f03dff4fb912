"""A job's minute of rest is for jobs that are no more urgent than it."""

from pathlib import Path

from tests.unit.control.memory import Bench, play
from treadle.wire.jobs import State


def test_u14_a_rest_keeps_a_normal_job_waiting_and_no_urgent_gang(tmp_path: Path) -> None:
    """1. An elastic job has just been given all devices. 2. A normal job waits for the end of its
    rest. 3. An urgent gang of three does not, and the elastic job goes on with what is left."""

    async def story(here: Bench) -> None:
        elastic = await here.submit("forever", devices="1..4", resumable=True)
        await here.reached(elastic, State.RUNNING)
        normal = await here.submit("forever", estimate_s=10.0)
        await here.settle()
        why = await here.live.why(normal)
        assert why.cause == "settling"
        assert why.change == (
            f"treadle priority {normal} 1 (for admins) starts it now and resizes job {elastic}"
        )
        gang = await here.submit("forever", devices="3", priority=10)
        await here.reached(gang, State.RUNNING)
        await here.settle()
        scheduler = here.live.context.scheduler
        assert scheduler.jobs[gang].size == 3
        assert scheduler.jobs[elastic].size + scheduler.jobs[normal].size == 1

    play(story, tmp_path, devices=4, policy="afs")


def test_u14_an_urgent_job_disturbs_no_more_jobs_that_rest_than_it_needs(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        resting = [await here.submit("forever", resumable=True) for _ in range(4)]
        for job in resting:
            await here.reached(job, State.RUNNING)
        urgent = await here.submit("forever", priority=10)
        await here.reached(urgent, State.RUNNING)
        await here.settle()
        assert sorted(here.state(job) for job in resting) == [State.PENDING, *[State.RUNNING] * 3]

    play(story, tmp_path, devices=4, policy="srtf")


def test_u14_a_job_that_rests_is_left_alone_where_that_would_not_help_the_urgent_one(
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
        assert (await here.live.why(gang)).because == "it asks for 2 devices and both are taken"

    play(story, tmp_path, devices=2, policy="srtf")
