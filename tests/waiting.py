"""Waiting for what is expected: soon at first, then less often, as others need the machine."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from treadle.control.api.context import Context

PATIENCE_S = 180.0
SHORTEST_S, LONGEST_S = 0.005, 0.25  # between two looks
SHARE = 0.1  # of what it took so far
QUIET_LOOKS, LOOK_S = 10, 0.001
Found = TypeVar("Found")


def until(there: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    for pause_s in _pauses_s(within_s):
        if there():
            return
        time.sleep(pause_s)


async def awaited(there: Callable[[], Awaitable[Found]], within_s: float = PATIENCE_S) -> Found:
    """What it answers once that is true."""
    for pause_s in _pauses_s(within_s):
        if found := await there():
            break
        await asyncio.sleep(pause_s)
    return found


async def at_rest(context: Context) -> None:
    """Until the controller has taken in, decided and written everything, and waits for more.

    It may rest between a fact and what an engine in memory says of it: hence several looks.
    """
    quiet = 0
    while quiet < QUIET_LOOKS:
        await asyncio.sleep(LOOK_S)
        waits = bool(context.inbox._getters)  # type: ignore[attr-defined]
        due = context.scheduler.is_due(context.clock.now())
        quiet = quiet + 1 if waits and not due and not context.commit.writing else 0


def _pauses_s(within_s: float) -> Iterator[float]:
    begun = time.monotonic()
    while (waited_s := time.monotonic() - begun) < within_s:
        yield min(max(SHORTEST_S, SHARE * waited_s), LONGEST_S)
    raise AssertionError("it never came to hold")
