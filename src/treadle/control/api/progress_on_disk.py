"""Reports of jobs are on disk before they are answered, many of them in one write."""

import asyncio
from contextlib import suppress

from treadle.control.api.context import Context
from treadle.control.learning import PROGRESS
from treadle.store.rows import Batch

EVERY_S = 0.2  # after a write during which others came: many jobs have one write together
WITHIN_S = 1.0  # a store that is slower keeps no job waiting


class ProgressOnDisk:
    """Writes what running jobs said last (control/learning/kept_words.py)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._written = ""
        self._writing: asyncio.Task[None] | None = None  # has begun
        self._following: asyncio.Task[None] | None = None  # writes what is heard until it begins

    async def keep(self) -> None:
        """Return once everything that was heard is on disk, or the store takes too long."""
        if (writing := self.begin()) is not None:
            await asyncio.wait({writing}, timeout=WITHIN_S)

    def begin(self) -> "asyncio.Task[None] | None":
        """Begin to write what was heard; None: it is written once the store takes it."""
        if self._context.condition.store_error:
            return None
        if self._following is None:
            self._following = asyncio.create_task(self._write(self._writing))
        return self._following

    async def close(self) -> None:
        """Nothing is written from now on."""
        open_tasks = [task for task in (self._writing, self._following) if task is not None]
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)

    async def _write(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None and not before.done():
            await asyncio.wait({before})
            await asyncio.sleep(EVERY_S)
        self._writing, self._following = self._following, None
        words = self._context.learner.words()
        if words == self._written:
            return
        with suppress(Exception):  # The store says itself what is wrong; reports are no orders.
            await self._context.commit.write(Batch(settings={PROGRESS: words}))
            self._written = words
