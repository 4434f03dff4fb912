"""Looks at files and processes again and again, in threads, until there is something to see."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from treadle.core.ports import Clock
from treadle.engines.local.machine_pause import TROUBLE

Seen = TypeVar("Seen")

FIRST_PAUSE_S, PAUSE_MAX_S = 0.002, 0.5


class Looking:
    """What cannot be looked at for want of descriptors or memory is looked at again."""

    def __init__(self, clock: Clock, suspect: Callable[[], Awaitable[None]]) -> None:
        """suspect: called when a look failed for want of something of the machine."""
        self._clock = clock
        self._suspect = suspect

    async def until(
        self, look: Callable[[], Seen], enough: Callable[[Seen], bool], *, tries: int | None
    ) -> Seen:
        """Look until it is enough or the tries are used up."""
        pause_s = FIRST_PAUSE_S
        for number in count(1):
            try:
                seen = await asyncio.to_thread(look)
                if enough(seen) or number == tries:
                    return seen
            except TROUBLE:
                if number == tries:
                    raise
                await self._suspect()
            await self._clock.sleep_until(self._clock.now() + pause_s)
            pause_s = min(PAUSE_MAX_S, pause_s * 2)
        raise AssertionError("count has no end")

    async def patiently(self, look: Callable[[], Seen]) -> Seen:
        """Look until it can be seen, however long that takes."""
        return await self.until(look, lambda _: True, tries=None)
