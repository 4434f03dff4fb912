"""Routes about history: events, usage, and copies to analyze elsewhere."""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from treadle.server.access import Load
from treadle.server.answers import answer, close_source
from treadle.server.routes import Asking, Served, Shared, Topic
from treadle.server.stream import Standing
from treadle.wire.machine import EventPage, Role, UsageRow
from treadle.wire.problems import NotKnownError

EVENT_ID_MAX = 2**53
MOMENT_MAX = 1e11  # seconds since 1970, well past the year 5000

route = Topic("history")


class JournalResponse(StreamingResponse):
    media_type = "application/x-ndjson"


class UsageFormat(StrEnum):
    JSON = "json"
    CSV = "csv"


JobName = Annotated[str, Query(max_length=200, description="Only events of this job.")]
Moment = Annotated[
    float, Query(ge=0, le=MOMENT_MAX, allow_inf_nan=False, description="Seconds since 1970.")
]


@route("GET", "/events", Role.VIEWER, EventPage, 404)
async def list_events(
    service: Served,
    after: Annotated[int, Query(ge=0, le=EVENT_ID_MAX)] = 0,
    job: JobName = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    last: Annotated[bool, Query(description="The newest events, not those after an id.")] = False,
) -> Response:
    """List events, oldest first."""
    if last:
        return await answer(service.events_last(job=job, limit=limit))
    return await answer(service.events(after=after, job=job, limit=limit))


@route("GET", "/usage", Role.VIEWER, tuple[UsageRow, ...], also="text/csv", load=Load.COMPUTED)
async def get_usage(
    service: Served,
    since_at: Moment = 0.0,
    until_at: Annotated[float | None, Query(ge=0, le=MOMENT_MAX, allow_inf_nan=False)] = None,
    as_format: Annotated[UsageFormat, Query(alias="format")] = UsageFormat.JSON,
) -> Response:
    """Show device-hours for each user and tenant, as JSON or CSV."""
    rows = await service.usage(since_at=since_at, until_at=until_at)
    if as_format is UsageFormat.JSON:
        return await answer(rows)
    return Response(as_csv((UsageRow,), rows), media_type="text/csv")


@route("GET", "/snapshot", Role.VIEWER, dict[str, object], load=Load.COMPUTED)
async def get_snapshot(service: Served) -> Response:
    """Get the state as a policy sees it, to simulate from."""
    return await answer(service.snapshot())


async def _journal(
    shared: Shared, who: Asking, request: Request
) -> AsyncIterator[AsyncIterator[bytes]]:
    pieces = shared.service.journal()
    try:
        with shared.streams.counted(who.user):
            yield _while_known(pieces, Standing(shared, request))
    finally:
        await close_source(pieces)


async def _while_known(pieces: AsyncIterator[bytes], standing: Standing) -> AsyncIterator[bytes]:
    async for piece in pieces:
        if not standing.holds():
            raise NotKnownError("the token or session ended during the download")
        yield piece


@route("GET", "/journal", Role.VIEWER, response_class=JournalResponse, load=Load.COMPUTED)
async def get_journal(pieces: Annotated[AsyncIterator[bytes], Depends(_journal)]) -> Response:
    """Download the journal as JSON lines."""
    return JournalResponse(pieces)


@route("GET", "/debug", Role.ADMIN, dict[str, str], load=Load.COMPUTED)
async def get_debug(service: Served) -> Response:
    """Get diagnostics, as texts by name."""
    return await answer(service.debug())


def as_csv(kinds: Sequence[type], rows: Sequence[object]) -> str:
    """Rows of these dataclasses, with their fields as columns; what a row lacks is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(dict.fromkeys(each.name for kind in kinds for each in fields(kind)))
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(getattr(row, name, None)) for name in names])
    return text.getvalue()


def _cell(value: object) -> object:
    """A name that a spreadsheet would take for a formula is quoted as one does there."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value
