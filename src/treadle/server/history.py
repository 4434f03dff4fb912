"""Routes about what happened: events, usage, and copies to study elsewhere."""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import Annotated

from fastapi import Header, Query
from starlette.responses import Response, StreamingResponse

from treadle.server.answers import answer
from treadle.server.limits import StreamCount
from treadle.server.routes import Asking, Served, Shared, Topic
from treadle.server.stream import MEDIA_TYPE, EventStream, close_source, event_stream
from treadle.wire.machine import EventPage, UsageRow, Who
from treadle.wire.problems import InvalidRequestError

EVENT_ID_MAX = 2**53
MOMENT_MAX = 1e11  # seconds since 1970, well past the year 5000

topic = Topic("history")


class UsageFormat(StrEnum):
    JSON = "json"
    CSV = "csv"


JobName = Annotated[str, Query(max_length=200, description="Only what is about this job.")]
Moment = Annotated[
    float, Query(ge=0, le=MOMENT_MAX, allow_inf_nan=False, description="Seconds since 1970.")
]


@topic.route("GET", "/events", answer=EventPage, refusals=(404,))
async def list_events(
    service: Served,
    after: Annotated[int, Query(ge=0, le=EVENT_ID_MAX)] = 0,
    job: JobName = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    last: Annotated[
        bool, Query(description="The newest ones instead of those after an id.")
    ] = False,
) -> Response:
    """What happened, oldest first."""
    if last:
        return answer(service.events_last(job=job, limit=limit))
    return answer(service.events(after=after, job=job, limit=limit))


@topic.route("GET", "/events/stream", media_type=MEDIA_TYPE, refusals=(404,))
async def follow_events(
    shared: Shared,
    who: Asking,
    after: Annotated[
        int | None, Query(ge=0, le=EVENT_ID_MAX, description="Without it, from now on.")
    ] = None,
    job: JobName = "",
    last: Annotated[str, Header(alias="Last-Event-ID", max_length=20)] = "",
) -> Response:
    """What happens, as it happens. Events carry an EventView; their ids resume a broken stream."""
    if last:
        after = _resumed(last)
    if after is None:
        after = shared.service.events_last(limit=1).next
    events = event_stream(shared.service, after=after, job=job)
    return EventStream(events, serving=shared, who=who)


@topic.route("GET", "/usage", answer=tuple[UsageRow, ...], also="text/csv")
async def get_usage(
    service: Served,
    since_at: Moment = 0.0,
    until_at: Annotated[float | None, Query(ge=0, le=MOMENT_MAX, allow_inf_nan=False)] = None,
    as_format: Annotated[UsageFormat, Query(alias="format")] = UsageFormat.JSON,
) -> Response:
    """Device-hours for each user and tenant, as JSON or CSV."""
    rows = service.usage(since_at=since_at, until_at=until_at)
    if as_format is UsageFormat.JSON:
        return answer(rows)
    return Response(_csv(rows), media_type="text/csv")


@topic.route("GET", "/snapshot", answer=dict[str, object])
async def get_snapshot(service: Served) -> Response:
    """The state as a policy sees it, to be simulated from."""
    return answer(service.snapshot())


@topic.route("GET", "/journal", media_type="application/x-ndjson")
async def get_journal(shared: Shared, who: Asking) -> Response:
    """The journal as a file of JSON lines."""
    shared.streams.check(who.user)
    pieces = _counted(shared.service.journal(), shared.streams, who)
    return StreamingResponse(pieces, media_type="application/x-ndjson")


@topic.route("GET", "/debug", answer=dict[str, str])
async def get_debug(service: Served) -> Response:
    """What helps to find a fault, as texts by name."""
    return answer(service.debug())


async def _counted(
    pieces: AsyncIterator[bytes], streams: StreamCount, who: Who
) -> AsyncIterator[bytes]:
    with streams.counted(who.user):
        try:
            async for piece in pieces:
                yield piece
        finally:
            await close_source(pieces)


def _resumed(last: str) -> int:
    if not last.isascii() or not last.isdigit() or int(last) > EVENT_ID_MAX:
        raise InvalidRequestError(
            f"header 'Last-Event-ID' should be the id of an event, found {last!r}"
        )
    return int(last)


def _csv(rows: Sequence[UsageRow]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [each.name for each in fields(UsageRow)]
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(getattr(row, name)) for name in names])
    return text.getvalue()


def _cell(value: object) -> object:
    """A name that a spreadsheet would take for a formula is quoted as one does there."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value
