"""The journal as a file: what `treadle analyze` makes of a live run."""

import asyncio
from pathlib import Path

from tests.control.living import ME, bash, ended, export, living
from treadle.reports.recorder import Recorder
from treadle.study.record import replayed
from treadle.wire.jobs import State


def recorded(path: Path) -> Recorder:
    return replayed(path).recorder


def test_every_way_to_end_has_its_own_word(tmp_path: Path) -> None:
    async def story() -> list[str]:
        async with living(tmp_path) as live:
            requests = [
                bash("true"),
                bash("exit 3", retries=0),
                bash("sleep 60", time_limit_s=0.3, grace_s=0.2),
                bash("true", workdir="/nowhere/at/all"),
            ]
            jobs = [(await live.submit(ME, request)).id for request in requests]
            views = await ended(live, *jobs)
            assert [view.state for view in views] == [
                State.SUCCEEDED,
                State.FAILED,
                State.TIMEOUT,
                State.FAILED,
            ]
            await export(live, tmp_path / "live.journal")
            return jobs

    jobs = asyncio.run(story())
    stories = recorded(tmp_path / "live.journal").histories
    assert [stories[job].status for job in jobs] == ["finished", "failed", "failed", "failed"]


def test_a_machine_that_became_smaller_is_part_of_the_record(tmp_path: Path) -> None:
    """1. A job holds four slots and ends. 2. The next controller has two. 3. The journal still
    replays, from the machine that it began with."""

    async def story(slots: int) -> None:
        async with living(tmp_path, slots=slots) as live:
            job = (await live.submit(ME, bash("true", devices=str(slots)))).id
            await ended(live, job)
            await export(live, tmp_path / "live.journal")

    asyncio.run(story(4))
    asyncio.run(story(2))
    asyncio.run(story(3))
    stories = recorded(tmp_path / "live.journal").histories
    assert [story.status for story in stories.values()] == ["finished"] * 3
