"""Reads for those who look at the scheduler as a whole: decisions, queue, spells, what if."""

from treadle.control.api.context import Context
from treadle.control.api.decisions import Decisions
from treadle.control.api.fragmented import Fragmented
from treadle.control.api.history import History
from treadle.control.api.lessons import Lessons
from treadle.control.api.queries import Queries
from treadle.control.api.queue_view import queue_view
from treadle.control.api.spells import spells
from treadle.control.api.usage_days import usage_days, with_running
from treadle.control.api.what_if import WhatIfs
from treadle.wire.machine import UsageRow
from treadle.wire.queue import QueueView
from treadle.wire.spells import SpellPage
from treadle.wire.usage_days import UsageDays


class Looks:
    """Each is computed beside the event loop, or at hand."""

    def __init__(self, context: Context, queries: Queries, history: History) -> None:
        self._context = context
        self._queries = queries
        self._history = history
        self.what_if = WhatIfs(context, queries).ask
        self.kept = Decisions(context)
        self.lessons = Lessons(context, queries.thinking)
        self.fragmented = Fragmented(context)

    async def queue(self) -> QueueView:
        return await self._queries.thinking.about("queue", queue_view)

    async def usage(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> tuple[UsageRow, ...]:
        """Device-hours for each user and tenant; what runs counts up to now."""
        now_at, rows = await self._history.usage(since_at=since_at, until_at=until_at)
        until = now_at if until_at is None else min(until_at, now_at)
        return with_running(self._context, rows, since_at, until)

    async def spells(self, *, since_at: float = 0.0, until_at: float | None = None) -> SpellPage:
        return await spells(self._context, since_at, until_at)

    async def usage_days(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> UsageDays:
        return await usage_days(self._context, self.fragmented.hours(), since_at, until_at)
