"""The only file that reads a clock."""

import asyncio
import time
from math import isinf


class MonotonicClock:
    """Seconds since it was made; a clock that is set back or forward does not move it."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._begun

    async def sleep_until(self, moment: float) -> None:
        """Return at the moment, or never if it is infinitely far."""
        if isinf(moment):
            await asyncio.Event().wait()
        # The event loop may wake a hair early; the loop that called must not spin on that.
        while (left_s := moment - self.now()) > 0:
            await asyncio.sleep(left_s)
