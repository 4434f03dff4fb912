"""Views of the scheduler, for a service in memory that has none."""

from treadle.control.api import LiveService
from treadle.wire.decisions import Decision, DecisionPage
from treadle.wire.learned import ForgetRequest, Forgotten, LearnedPage, LearnedScript
from treadle.wire.machine import Who
from treadle.wire.queue import Fragmentation, QueueView
from treadle.wire.spells import SpellPage
from treadle.wire.usage_days import DayTotal, UsageDayRow, UsageDays
from treadle.wire.what_if import Outcome, WhatIf, WhatIfRequest

POLICY = "fifo"


class ViewsInMemory(LiveService):
    async def usage_days(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> UsageDays:
        row = UsageDayRow(
            day="2026-11-16",
            user="=ada",
            tenant="a,b",
            jobs=1,
            allocated_h=1.5,
            measured_h=0.0,
            used_h=None,
            failed_h=0.0,
            idle_h=None,
        )
        total = DayTotal(day=row.day, capacity_h=24.0, fragmented_h=0.5)
        return UsageDays(rows=(row,), days=(total,))

    async def spells(self, *, since_at: float = 0.0, until_at: float | None = None) -> SpellPage:
        return SpellPage(spells=(), nodes=(), closed=(), since_at=since_at, until_at=9.0)

    def decisions(self, *, after: int = 0, limit: int = 100, job: str = "") -> DecisionPage:
        one = Decision(
            id=1,
            at=2.0,
            policy=POLICY,
            cpu_ms=0.5,
            events=(),
            changes=(),
            running=0,
            waiting=0,
            free=1,
        )
        return DecisionPage(decisions=() if after else (one,), next=1, others=0, since_at=1.0)

    async def learned(self, who: Who, script: str = "", user: str = "") -> LearnedPage:
        one = LearnedScript(id="0a", script=script or "train.py", user=user or who.user, runs=2)
        return LearnedPage(scripts=(one,))

    async def forget_script(self, who: Who, request: ForgetRequest) -> Forgotten:
        return Forgotten(scripts=(request.script,))

    async def queue(self) -> QueueView:
        none = Fragmentation(free=1, largest_gang=1, nodes=(), sentence="1 device is free")
        return QueueView(jobs=(), waiting=0, held_back=0, shares=(), fragmentation=none)

    async def what_if(self, asked: WhatIfRequest) -> WhatIf:
        outcome = Outcome(
            policy=asked.policy or POLICY,
            cluster=asked.cluster or "1x1",
            jobs=0,
            ended=0,
            mean_completion_s=None,
            p90_completion_s=None,
            makespan_s=None,
        )
        return WhatIf(
            at=1.0, now=outcome, then=outcome, jobs=(), spells_now=(), spells_then=(), notes=()
        )
