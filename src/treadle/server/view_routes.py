"""Routes to look at the scheduler: its decisions, its queue, who held what, what would be, and what
was learned.
"""

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from treadle.server.access import Load
from treadle.server.answers import answer
from treadle.server.history_routes import EVENT_ID_MAX, MOMENT_MAX, Moment, UsageFormat, as_csv
from treadle.server.routes import Asking, Served, Topic
from treadle.wire.decisions import DecisionPage
from treadle.wire.learned import ForgetRequest, Forgotten, LearnedPage
from treadle.wire.machine import Role
from treadle.wire.queue import QueueView
from treadle.wire.spells import SpellPage
from treadle.wire.usage_days import DayTotal, UsageDayRow, UsageDays
from treadle.wire.what_if import WhatIf, WhatIfRequest

route = Topic("views")

About = Annotated[
    str, Query(max_length=200, description="Only what changed this job: an id, an array, a name.")
]
Until = Annotated[float | None, Query(ge=0, le=MOMENT_MAX, allow_inf_nan=False)]


@route("GET", "/decisions", Role.VIEWER, DecisionPage)
async def list_decisions(
    service: Served,
    after: Annotated[int, Query(ge=0, le=EVENT_ID_MAX)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    job: About = "",
) -> Response:
    """List the newest decisions that changed something, oldest first."""
    return await answer(service.decisions(after=after, limit=limit, job=job))


@route("GET", "/queue", Role.VIEWER, QueueView, 503, load=Load.COMPUTED)
async def show_queue(service: Served) -> Response:
    """Show who waits, the shares of tenants, and how free devices lie."""
    return await answer(service.queue())


@route("GET", "/spells", Role.VIEWER, SpellPage, 503, load=Load.COMPUTED)
async def list_spells(service: Served, since_at: Moment = 0.0, until_at: Until = None) -> Response:
    """List who held which devices between two moments."""
    return await answer(service.spells(since_at=since_at, until_at=until_at))


@route("POST", "/what-if", Role.USER, WhatIf, 404, 503, load=Load.SIMULATED)
async def simulate_what_if(asked: WhatIfRequest, service: Served) -> Response:
    """Simulate the present queue under another policy, on other machines, or without jobs."""
    return await answer(service.what_if(asked))


@route("GET", "/learned", Role.VIEWER, LearnedPage, 503, load=Load.COMPUTED)
async def list_learned(
    service: Served,
    who: Asking,
    script: Annotated[
        str, Query(max_length=1000, description="Everything of this one: a name or an id.")
    ] = "",
    user: Annotated[str, Query(max_length=200, description="Only of this user's scripts.")] = "",
) -> Response:
    """Show what was learned of scripts: lengths by argument, needs, speeds, company."""
    return await answer(service.learned(who, script=script, user=user))


@route("POST", "/learned/forget", Role.USER, Forgotten, 404, 503)
async def forget_learned(asked: ForgetRequest, service: Served, who: Asking) -> Response:
    """Forget what was learned of a script."""
    return await answer(service.forget_script(who, asked))


@route("GET", "/usage/days", Role.VIEWER, UsageDays, 503, also="text/csv", load=Load.COMPUTED)
async def get_usage_by_day(
    service: Served,
    since_at: Moment = 0.0,
    until_at: Until = None,
    as_format: Annotated[UsageFormat, Query(alias="format")] = UsageFormat.JSON,
) -> Response:
    """Show device-hours by day and what was wasted; in CSV the totals of days have no user."""
    found = await service.usage_days(since_at=since_at, until_at=until_at)
    if as_format is UsageFormat.JSON:
        return await answer(found)
    all_rows: list[UsageDayRow | DayTotal] = [*found.rows, *found.days]
    rows = sorted(all_rows, key=lambda row: row.day)
    return Response(as_csv((UsageDayRow, DayTotal), rows), media_type="text/csv")
