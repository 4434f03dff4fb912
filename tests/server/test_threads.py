"""The event loop's threads: one that never comes back keeps no daemon."""

import asyncio
import threading
import time

import pytest

from treadle.server import threads as threads_module
from treadle.server.threads import SteadyThreads


def test_a_loop_ends_although_a_thread_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "LEAVE_WITHIN_S", 0.1)
    begun, stuck = threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return stuck.wait(60)

    async def daemon() -> None:
        asyncio.get_running_loop().set_default_executor(SteadyThreads())
        waiting = asyncio.ensure_future(asyncio.to_thread(work))
        assert await asyncio.to_thread(begun.wait, 30)
        waiting.cancel()

    before_s = time.monotonic()
    asyncio.run(daemon())
    assert time.monotonic() - before_s < 30
    own = [thread for thread in threading.enumerate() if thread.name.startswith("treadle ")]
    assert own
    assert all(thread.daemon for thread in own)
    stuck.set()


def test_work_that_is_under_way_comes_to_its_end() -> None:
    begun, left, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert left.wait(30)
        ended.set()

    async def daemon() -> None:
        asyncio.get_running_loop().set_default_executor(SteadyThreads())
        waiting = asyncio.ensure_future(asyncio.to_thread(work))
        assert await asyncio.to_thread(begun.wait, 30)
        waiting.cancel()
        left.set()

    asyncio.run(daemon())
    assert ended.is_set()
