"""A store that does not answer is shown, whatever was asked of it, and until it answers."""

import asyncio
import threading
from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play, playing
from treadle.control.loop import commit as commit_module
from treadle.journal.codec import Noted
from treadle.store.errors import StoreError
from treadle.store.rows import Batch
from treadle.wire.jobs import JobRequest, State
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


@playing()
async def test_a_note_that_is_given_up_takes_no_step_with_it(
    here: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A job ends, and that is to be written later. 2. A note is written with it, which takes
    long and is given up. 3. The store answers: the job is shown as ended."""
    monkeypatch.setattr(commit_module, "LATER_S", 60.0)
    monkeypatch.setattr(commit_module, "ENDS_LATER_S", 60.0)
    store, commit = here.live.context.store, here.live.context.commit
    write, writes, back = store.write, threading.Event(), threading.Event()

    def slow(batch: Batch) -> tuple[int, ...]:
        writes.set()
        assert back.wait(30)
        return write(batch)

    job = await here.submit("true")
    while not commit.ending:
        await asyncio.sleep(0.001)
    monkeypatch.setattr(store, "write", slow)
    note = asyncio.ensure_future(commit.note(Batch(), Noted("given up", "")))
    while not writes.is_set():
        await asyncio.sleep(0.001)
    assert here.state(job) is State.STOPPING
    note.cancel()
    await asyncio.gather(note, return_exceptions=True)
    back.set()
    await here.reached(job, State.SUCCEEDED)


@playing()
async def test_after_a_write_that_failed_for_good_nothing_more_is_carried_out(
    here: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced(_: Batch) -> tuple[int, ...]:
        raise StoreError("another controller has taken over", retryable=False)

    commit = here.live.context.commit
    monkeypatch.setattr(here.live.context.store, "write", replaced)
    with pytest.raises(StoreError):
        await commit.note(Batch(), Noted("first", ""))
    monkeypatch.undo()
    with pytest.raises(StoreError):
        await commit.note(Batch(), Noted("second", ""))
