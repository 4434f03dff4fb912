"""The web page's stream: all that changes, and one log."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, NamedTuple

from fastapi import Header, Query, Request
from fastapi.sse import format_sse_event
from starlette.responses import Response

from treadle.server.answers import close_source, encoded
from treadle.server.privacy import may_read
from treadle.server.routes import Asking, Serving, Shared, Topic
from treadle.server.stream import EventStream, next_piece
from treadle.wire.machine import Role
from treadle.wire.problems import InvalidRequestError

ID_MAX = 2**53
_LOG = re.compile(r"([A-Za-z0-9_.-]{1,200}):([0-9]{1,9}):([0-9]{1,6}):(-?[0-9]{1,15})", re.ASCII)

route = Topic("history")


class Followed(NamedTuple):
    """A log, and how far it has been read."""

    job: str  # as it was asked for, then its id
    attempt: int  # 0: the newest
    rank: int
    offset: int  # below 0: from the end


@route("GET", "/stream", Role.VIEWER, None, 404, response_class=EventStream)
async def follow_all(
    shared: Shared,
    who: Asking,
    request: Request,
    after: Annotated[
        int | None, Query(ge=0, le=ID_MAX, description="The id to go on after; else from now on.")
    ] = None,
    log: Annotated[
        str, Query(max_length=240, description="JOB:ATTEMPT:RANK:OFFSET of a log to follow.")
    ] = "",
    last: Annotated[str, Header(alias="Last-Event-ID", max_length=20)] = "",
) -> Response:
    """Stream what changes, at most once a second.

    `tick` carries a Tick. `reset` says that what came before is not known: read the lists anew.
    `log` carries a LogPiece of the log that was asked for.
    """
    if last.isascii() and last.isdigit():
        after = int(last)
    followed = _followed(log) if log else None
    if followed is not None:
        job = may_read(who, (await shared.service.job(followed.job)).job)
        followed = followed._replace(job=job)
    return EventStream(_frames(shared, after, followed), serving=shared, request=request)


def _followed(text: str) -> Followed:
    found = _LOG.fullmatch(text)
    if found is None:
        raise InvalidRequestError(f"log is {text!r}; expected JOB:ATTEMPT:RANK:OFFSET")
    return Followed(found[1], int(found[2]), int(found[3]), int(found[4]))


async def _frames(
    serving: Serving, after: int | None, followed: Followed | None
) -> AsyncIterator[bytes]:
    source = serving.hub.frames(after)
    try:
        async for frame in source:
            if frame.text:
                yield frame.text
            while followed is not None:
                piece = await next_piece(
                    serving.service,
                    followed.job,
                    attempt=followed.attempt,
                    rank=followed.rank,
                    offset=followed.offset,
                )
                if piece is None or not (piece.text or piece.next != followed.offset):
                    break
                followed = followed._replace(attempt=piece.attempt, offset=piece.next)
                # The id is that of the frames: the piece says where its log goes on.
                data = encoded(piece).decode()
                yield format_sse_event(event="log", id=str(frame.id), data_str=data)
    finally:
        await close_source(source)
