"""Streams of server-sent events: resumable by their ids, limited in number, quick to end.

FastAPI frames the events, notices a reader that goes away, and sends a comment after 15 s of
silence, so that a reader can tell a quiet server from a dead one. A stream also ends when its
source does and when the server closes; `guard.py` drops a reader that is too slow.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi.sse import ServerSentEvent

from treadle.server.answers import encoded
from treadle.server.port import Service, settled
from treadle.server.routes import Serving
from treadle.wire.jobs import LogPiece
from treadle.wire.machine import Who
from treadle.wire.problems import ConflictError, NotFoundError

RECONNECT_MS = 1000

Events = AsyncIterator[ServerSentEvent]


@asynccontextmanager
async def streaming(source: Events, serving: Serving, who: Who) -> AsyncIterator[Events]:
    """The source's events until the server closes; the stream counts while the block runs.

    The source is closed here and not within the generator that yields its events: FastAPI cancels
    that one when the reader goes away, and a cancelled task cannot await its own cleanup.
    """
    closing = asyncio.create_task(_wait(serving.closing))
    tasks: list[asyncio.Task[Any]] = [closing]

    async def events() -> Events:
        yield ServerSentEvent(retry=RECONNECT_MS)
        while True:
            step = asyncio.create_task(_next(source))
            tasks[1:] = [step]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if closing.done() or (event := step.result()) is None:
                return
            yield event

    try:
        with serving.streams.counted(who.user), serving.metrics.streams.track_inprogress():
            yield events()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await close_source(source)


async def event_stream(service: Service, *, after: int, job: str) -> Events:
    """The journal's events after that id."""
    source = service.follow(after=after, job=job)
    try:
        async for event in source:
            yield ServerSentEvent(id=str(event.id), raw_data=encoded(event).decode())
    finally:
        await close_source(source)


async def log_stream(
    serving: Serving, identity: str, *, attempt: int, rank: int, offset: int, onward: bool
) -> Events:
    """One rank's output as it is written; `onward` into the attempts that follow.

    The id of an event is "attempt:offset", where to go on after it.
    """
    service, clock = serving.service, serving.settings.clock
    while True:
        piece = await _piece(service, identity, attempt=attempt, rank=rank, offset=offset)
        if piece is not None and piece.attempt:
            attempt = piece.attempt
            if piece.next != offset or piece.text:
                offset = piece.next
                yield ServerSentEvent(id=f"{attempt}:{offset}", raw_data=encoded(piece).decode())
                continue
        if piece is None or piece.ended:
            detail = await settled(service.job(identity))
            newest = max((each.number for each in detail.attempts), default=0)
            if onward and newest > attempt > 0:
                attempt, offset = attempt + 1, 0
                continue
            if detail.job.state.ended or (piece is not None and not onward):
                yield ServerSentEvent(id=f"{attempt}:{offset}", raw_data="{}", event="end")
                return
        await clock.sleep_until(clock.now() + serving.settings.log_poll_s)


async def _piece(
    service: Service, identity: str, *, attempt: int, rank: int, offset: int
) -> LogPiece | None:
    """The next part of the output; None while nothing has been written."""
    try:
        return await settled(service.log(identity, attempt=attempt, rank=rank, offset=offset))
    except (NotFoundError, ConflictError):
        return None


async def close_source(source: AsyncIterator[object]) -> None:
    """End a generator now, and not when the garbage collector finds it."""
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _next(events: Events) -> ServerSentEvent | None:
    return await anext(events, None)
