"""Clocks that tests move."""

import asyncio


class ManualClock:
    """Stands still until `advance`; sleepers wake in order of their moments."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        return self._now

    async def sleep_until(self, moment: float) -> None:
        if moment <= self._now:
            return
        woken = asyncio.Event()
        self._sleepers.append((moment, woken))
        await woken.wait()

    def advance(self, to: float) -> None:
        """Move to a moment and wake all that slept until then."""
        assert to >= self._now, "time does not run backwards"
        self._now = to
        due = sorted((s for s in self._sleepers if s[0] <= to), key=lambda sleeper: sleeper[0])
        self._sleepers = [s for s in self._sleepers if s[0] > to]
        for _, woken in due:
            woken.set()
