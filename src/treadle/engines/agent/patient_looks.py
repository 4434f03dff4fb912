"""Looks at files of attempts that are repeated until they succeed.

What cannot be looked at for want of descriptors or memory is not absent. It is looked at again, and
the machine is suspected.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from treadle.core.ports import Clock
from treadle.engines.agent.machine_pause import TROUBLE

Seen = TypeVar("Seen")


class PatientLooks:
    """Looks in threads, with growing pauses from 2 ms to half a second."""

    def __init__(self, clock: Clock, suspect: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._suspect = suspect

    async def seen(self, look: Callable[[], Seen]) -> Seen:
        """Look until it can be seen, however long that takes."""
        return await self.until(look, lambda _: True, tries=None)

    async def done(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it until it could be done; it may be begun again after any part of it."""
        for number in count():
            try:
                return await work()
            except TROUBLE:
                await self._suspect()
            await self._pause(number)
        raise AssertionError("count has no end")

    async def until(
        self, look: Callable[[], Seen], enough: Callable[[Seen], bool], *, tries: int | None
    ) -> Seen:
        """Look until it is enough or the tries are used up; the last trouble is raised."""
        for number in count():
            try:
                seen = await asyncio.to_thread(look)
                if enough(seen) or number + 1 == tries:
                    return seen
            except TROUBLE:
                if number + 1 == tries:
                    raise
                await self._suspect()
            await self._pause(number)
        raise AssertionError("count has no end")

    async def _pause(self, number: int) -> None:
        await self._clock.sleep_until(self._clock.now() + min(0.5, 0.002 * 2 ** min(number, 8)))
