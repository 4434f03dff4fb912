"""Reads for those who look at the scheduler as a whole: decisions, queue, spells, what if."""

from treadle.control.api.context import Context
from treadle.control.api.decisions import Decisions
from treadle.control.api.fragmented import Fragmented
from treadle.control.api.queries import Queries
from treadle.control.api.queue_view import queue_view
from treadle.control.api.spells import spells
from treadle.control.api.usage_days import usage_days
from treadle.control.api.what_if import WhatIfs
from treadle.control.api.why_not import why_not
from treadle.wire.decisions import DecisionPage, WhyNot
from treadle.wire.queue import QueueView
from treadle.wire.spells import SpellPage
from treadle.wire.usage_days import UsageDays
from treadle.wire.what_if import WhatIf, WhatIfRequest


class Looks:
    """Each is computed beside the event loop, or at hand."""

    def __init__(self, context: Context, queries: Queries) -> None:
        self._context = context
        self._queries = queries
        self._what_ifs = WhatIfs(context, queries)
        self.kept = Decisions(context)
        self.fragmented = Fragmented(context)

    def decisions(self, *, after: int, limit: int, job: str) -> DecisionPage:
        return self.kept.page(after=after, limit=limit, job=job)

    async def why_not(self, identity: str, device: str) -> WhyNot:
        record = await self._queries.record(identity)
        return await self._queries.thinking.about(
            ("why not", record.id, device),
            lambda context: why_not(context, record, device),
            names=(*record.after, *record.after_any),
        )

    async def queue(self) -> QueueView:
        return await self._queries.thinking.about("queue", queue_view)

    async def spells(self, *, since_at: float, until_at: float | None) -> SpellPage:
        return await spells(self._context, since_at, until_at)

    async def usage_days(self, *, since_at: float, until_at: float | None) -> UsageDays:
        return await usage_days(self._context, self.fragmented.hours(), since_at, until_at)

    async def what_if(self, asked: WhatIfRequest) -> WhatIf:
        return await self._what_ifs.ask(asked)
