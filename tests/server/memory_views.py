"""Views of the scheduler, for a service in memory that has none."""

from tests.blank import blank
from treadle.control.api import LiveService
from treadle.wire.decisions import Decision, DecisionPage
from treadle.wire.learned import ForgetRequest, Forgotten, LearnedPage, LearnedScript
from treadle.wire.machine import Who
from treadle.wire.queue import QueueView
from treadle.wire.spells import SpellPage
from treadle.wire.usage_days import DayTotal, UsageDayRow, UsageDays
from treadle.wire.what_if import WhatIf, WhatIfRequest


class ViewsInMemory(LiveService):
    async def usage_days(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> UsageDays:
        own = {"user": "=ada", "tenant": "a,b", "jobs": 1, "allocated_h": 1.5}
        row = blank(UsageDayRow, day="2026-11-16", **own)
        return UsageDays(
            rows=(row,), days=(DayTotal(day=row.day, capacity_h=24.0, fragmented_h=0.5),)
        )

    async def spells(self, *, since_at: float = 0.0, until_at: float | None = None) -> SpellPage:
        return blank(SpellPage, since_at=since_at)

    def decisions(self, *, after: int = 0, limit: int = 100, job: str = "") -> DecisionPage:
        return blank(DecisionPage, decisions=() if after else (blank(Decision, id=1),), next=1)

    async def learned(self, who: Who, script: str = "", user: str = "") -> LearnedPage:
        return LearnedPage(scripts=(LearnedScript(script=script or "train.py", user=user),))

    async def forget_script(self, who: Who, request: ForgetRequest) -> Forgotten:
        return Forgotten(scripts=(request.script,))

    async def queue(self) -> QueueView:
        return blank(QueueView)

    async def what_if(self, asked: WhatIfRequest) -> WhatIf:
        return blank(WhatIf)
