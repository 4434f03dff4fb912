"""What orders and answers say of arrays, dependencies and progress."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play
from treadle.core.job_report import Report
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import Role, Who
from treadle.wire.problems import ConflictError, InvalidRequestError

RUNS = State.RUNNING


def test_u15_a_dependency_on_an_array_is_in_the_state_of_its_members(tmp_path: Path) -> None:
    """1. All members wait. 2. One of them runs."""

    async def story(here: Bench) -> None:
        first = await here.submit("forever")
        await here.reached(first, RUNS)
        array = await here.live.submit(ME, JobRequest(command=("forever",), array="0-1"))
        after = await here.submit("true", after=(array.id,))
        await here.settle()
        waits_for = (await here.live.why(after)).numbers["after"]
        assert waits_for == (("array", array.id, "pending"),)
        here.memory.finish(first)
        await here.reached(array.jobs[0], RUNS)
        waits_for = (await here.live.why(after)).numbers["after"]
        assert waits_for == (("array", array.id, "running"),)

    play(story, tmp_path, devices=1)


def test_u15_why_has_the_progress_that_the_list_has(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", estimate_s=1e6)
        await here.reached(job, RUNS)
        own = Who(user="me", role=Role.VIEWER, job=job)
        await here.live.report(own, job, Report(step=60, total=100))
        progress = (await here.live.job(job)).job.progress
        assert progress is not None
        assert (progress.step, progress.total) == (60, 100)
        assert dict((await here.live.why(job)).details)["done"] == "60%"

    play(story, tmp_path)


def test_holding_an_array_leaves_out_what_would_lose_its_work(tmp_path: Path) -> None:
    """1. One member runs and cannot resume. 2. The others are held. 3. Alone it is refused."""

    async def story(here: Bench) -> None:
        array = await here.live.submit(ME, JobRequest(command=("forever",), array="0-2"))
        await here.reached(array.jobs[0], RUNS)
        held = await here.live.hold(ME, array.id)
        assert [view.id for view in held] == list(array.jobs[1:])
        await here.settle()
        assert [here.state(job) for job in array.jobs] == [RUNS, State.HELD, State.HELD]
        with pytest.raises(ConflictError, match="runs and cannot resume"):
            await here.live.hold(ME, array.jobs[0])

    play(story, tmp_path, devices=1)


def test_releasing_an_array_returns_only_what_was_held(tmp_path: Path) -> None:
    """1. Nothing is held but by the array's limit. 2. One member is held by its user."""

    async def story(here: Bench) -> None:
        array = await here.live.submit(ME, JobRequest(command=("forever",), array="0-3%1"))
        await here.reached(array.jobs[0], RUNS)
        assert await here.live.release(ME, array.id) == ()
        await here.live.hold(ME, array.jobs[2])
        released = await here.live.release(ME, array.id)
        assert [view.id for view in released] == [array.jobs[2]]

    play(story, tmp_path)


def test_a_dry_run_after_a_job_that_has_ended_starts_now(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        done = await here.submit("true")
        await here.reached(done, State.SUCCEEDED)
        running = await here.submit("forever")

        async def starts(**after: tuple[str, ...]) -> bool:
            request = JobRequest(command=("true",), **after)  # type: ignore[arg-type]
            return (await here.live.dry_run(ME, request)).starts_now

        assert await starts(after=(done,))
        assert await starts(after_any=(done,))
        assert not await starts(after=(done, running))
        with pytest.raises(InvalidRequestError, match="after names job 99"):
            await starts(after=("99",))

    play(story, tmp_path)


def test_a_job_that_stops_because_its_user_holds_it_can_be_released_before_it_has(
    tmp_path: Path,
) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", resumable=True)
        await here.reached(job, RUNS)
        here.memory.hang(job)
        (view,) = await here.live.hold(ME, job)
        await here.reached(job, State.STOPPING)
        (view,) = (await here.live.jobs()).jobs
        assert (view.state, view.cause) == (State.STOPPING, "leaving")
        assert view.numbers["by"] == "user"
        await here.live.release(ME, job)
        assert (await here.live.why(job)).numbers["by"] == "policy"
        here.memory.release(job)
        await here.reached(job, RUNS)

    play(story, tmp_path)


def test_a_job_that_is_resized_in_place_is_not_said_to_restart(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        for announced in (("announce", "size"), ()):
            words = (*announced, ";", "forever") if announced else ("forever",)
            job = await here.submit(*words, devices="1,2", resumable=True, estimate_s=9000)
            await here.reached(job, RUNS)
            await here.settle()
            here.memory.hang(job)
            other = await here.submit("forever", estimate_s=9000)
            await here.reached(job, State.RESIZING)
            (view,) = [view for view in (await here.live.jobs()).jobs if view.id == job]
            assert (view.cause, view.numbers["size"]) == ("resizing", 1)
            assert view.numbers["live"] is bool(announced)
            here.memory.release(job)
            for each in (job, other):
                await here.live.cancel(ME, each)
                await here.reached(each, State.CANCELLED)

    play(story, tmp_path, devices=2, policy="afs")
