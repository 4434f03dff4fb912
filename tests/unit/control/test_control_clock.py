"""The clock that reads the real time, and the one that a test sets."""

import asyncio
from math import inf

import pytest

from tests.telling import within
from treadle.control.loop.clock import MonotonicClock
from treadle.testing.clocks import ManualClock


@within(10.0)
async def test_the_monotonic_clock_starts_at_nothing_and_wakes_no_sooner_than_asked() -> None:
    """The one test that waits for real, 20 ms."""
    clock = MonotonicClock()
    began = clock.now()
    assert 0.0 <= began < 5.0
    await clock.sleep_until(began + 0.02)
    assert clock.now() >= began + 0.02


@pytest.mark.parametrize("clock", [MonotonicClock, ManualClock])
@within(10.0)
async def test_never_does_not_come(clock: type[MonotonicClock] | type[ManualClock]) -> None:
    sleeper = asyncio.ensure_future(clock().sleep_until(inf))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not sleeper.done()
    sleeper.cancel()
    await asyncio.gather(sleeper, return_exceptions=True)
