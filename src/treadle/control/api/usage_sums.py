"""Device-hours of each user: sums over all attempts there ever were, so not made for every reader.

With 100,000 attempts a sum takes 0.1 s. As long as no attempt begins or ends, another one differs
only by what running jobs used meanwhile; so one that took long is given again for a moment.
"""

import asyncio
from typing import NamedTuple

from treadle.control.loop import StoreReads, wall
from treadle.store.rows import UsageSum
from treadle.store.store import Store

SMALL_S = 0.02  # made so quickly, sums are always new
OLD_S_MAX = 2.0
KNOWN_MAX = 16  # questions

Span = tuple[float, float | None]


class SumsAt(NamedTuple):
    """What attempts had used at a moment; those that run use more with every second."""

    now_at: float
    sums: list[UsageSum]


class _Known(NamedTuple):
    version: int  # how often attempts had changed
    until_s: float  # of the loop's clock
    found: SumsAt


class UsageSums:
    """Asks the store, and remembers its answers for a moment."""

    def __init__(self) -> None:
        self._known: dict[Span, _Known] = {}

    async def between(self, reads: StoreReads, since_at: float, until_at: float | None) -> SumsAt:
        """Device-seconds between two moments, the second one None: until now."""

        def read(store: Store) -> tuple[int, SumsAt]:
            # In this order: what changes meanwhile makes the answer an old one.
            version, now_at = store.attempts_changed, wall()
            return version, SumsAt(now_at, store.usage(since_at, until_at, now_at))

        span, begun = (since_at, until_at), asyncio.get_running_loop().time()
        known = self._known.get(span)
        if known is not None and begun < known.until_s and known.version == reads.attempts_changed:
            return known.found
        version, found = await reads.ask(read)
        if asyncio.get_running_loop().time() - begun > SMALL_S:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[span] = _Known(version, begun + OLD_S_MAX, found)
        return found
