"""Facts of a node that its controller has not taken yet, by number."""

import asyncio
from collections import deque
from contextlib import suppress

from treadle.engines.agent.messages import Fact

LIMIT = 100_000  # a controller that is so far behind takes charge anew


class Outbox:
    """Facts are kept until the controller says that it has them."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.upto = 0  # the number of the newest fact
        self.overflowed = False
        self._limit = limit
        self._facts: deque[tuple[int, Fact]] = deque()
        self._more = asyncio.Event()

    def put(self, fact: Fact) -> None:
        self.upto += 1
        self._facts.append((self.upto, fact))
        self._more.set()
        if len(self._facts) > self._limit:
            self.overflowed = True
            self._facts.clear()

    @property
    def is_taken(self) -> bool:
        """Whether the controller has them all."""
        return not self._facts

    def after(self, number: int) -> list[Fact]:
        """All facts behind that one; those up to it are dropped."""
        self._drop(number)
        return [fact for _, fact in self._facts]

    async def wait(self, number: int, seconds: float) -> None:
        """Until there are facts behind that one, for so long at most; the controller has that."""
        self._drop(number)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.upto <= number:
                    self._more.clear()
                    await self._more.wait()

    def _drop(self, upto: int) -> None:
        while self._facts and self._facts[0][0] <= upto:
            self._facts.popleft()
