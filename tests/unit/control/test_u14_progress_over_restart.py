"""DONE does not go back when the daemon restarts."""

from pathlib import Path

from tests.unit.control.memory import ME, Bench, play_on
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import Report, State


def world() -> MemoryWorld:
    return MemoryWorld.of(Node("here", 1, "none"))


async def step_of(here: Bench, job: str) -> float | None:
    progress = (await here.live.job(job)).job.progress
    return None if progress is None else progress.step


def test_u14_a_job_that_reports_is_as_far_after_a_restart_as_before(tmp_path: Path) -> None:
    """The second report comes too soon after the first to be on record by itself."""
    there = world()

    async def before(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        for step in (10.0, 60.0):
            await here.live.report(ME, job, Report(step=step, total=100.0))
        await here.settle()
        assert await step_of(here, job) == 60.0

    async def after(here: Bench) -> None:
        assert await step_of(here, "1") == 60.0

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


def test_u14_what_a_job_prints_is_read_before_anyone_can_ask(tmp_path: Path) -> None:
    there = world()

    async def before(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        await here.settle()
        (attempt,) = there.attempts.values()
        attempt.write(0, b"step 70/100\n")  # and the daemon leaves before it looks

    async def after(here: Bench) -> None:
        assert await step_of(here, "1") == 70.0

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)
