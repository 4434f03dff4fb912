"""A store that does not answer is shown, whatever was asked of it, and until it answers."""

import asyncio
import threading
from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play
from treadle.control.loop import commit as commit_module
from treadle.store.errors import StoreError
from treadle.wire.jobs import JobRequest
from treadle.wire.problems import UnavailableError


@pytest.mark.parametrize("fails", [False, True])
def test_work_beside_the_batches_shows_that_the_store_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """1. A deletion of old rows does not come back. 2. Status says so, and orders are refused.
    3. It comes back, with an error or without one, and all is well again."""
    monkeypatch.setattr(commit_module, "WRITE_WITHIN_S", 0.05)

    async def story(here: Bench) -> None:
        live, back = here.live, threading.Event()

        def work() -> None:
            assert back.wait(30)
            if fails:
                raise StoreError("the disk is full", retryable=True)

        aside = asyncio.ensure_future(live.context.commit.aside(work))
        while not live.status().problem:
            await asyncio.sleep(0.001)
        assert "has not answered for 0.05 s" in live.status().problem
        with pytest.raises(UnavailableError):
            await live.submit(ME, JobRequest(command=("true",)))
        back.set()
        (found,) = await asyncio.gather(aside, return_exceptions=True)
        assert isinstance(found, StoreError) == fails
        assert not live.status().problem
        await here.submit("true")

    play(story, tmp_path)
