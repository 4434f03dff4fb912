"""What orders and answers say of arrays, dependencies and progress."""

from pathlib import Path

from tests.unit.control.memory import ME, Bench, play
from treadle.wire.jobs import JobRequest, Report, State
from treadle.wire.machine import Role, Who

RUNS = State.RUNNING


def test_u15_a_dependency_on_an_array_is_in_the_state_of_its_members(tmp_path: Path) -> None:
    """1. All members wait. 2. One of them runs."""

    async def story(here: Bench) -> None:
        first = await here.submit("forever")
        await here.reached(first, RUNS)
        array = await here.live.submit(ME, JobRequest(command=("forever",), array="0-1"))
        after = await here.submit("true", after=(array.id,))
        await here.settle()
        assert here.live.why(after).because == f"it starts after job {array.id} (pending)"
        here.memory.finish(first)
        await here.reached(array.jobs[0], RUNS)
        assert here.live.why(after).because == f"it starts after job {array.id} (running)"

    play(story, tmp_path, devices=1)


def test_u15_why_has_the_progress_that_the_list_has(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", estimate_s=1e6)
        await here.reached(job, RUNS)
        own = Who(user="me", role=Role.VIEWER, job=job)
        await here.live.report(own, job, Report(step=60, total=100))
        progress = here.live.job(job).job.progress
        assert progress is not None
        assert (progress.step, progress.total) == (60, 100)
        assert here.live.why(job).because.endswith("; 60% is done")

    play(story, tmp_path)
