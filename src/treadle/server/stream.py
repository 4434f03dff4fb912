"""Streams of server-sent events: resumable by their ids, limited in number, quick to end.

A stream ends when its source does, when its reader goes away, and when the server closes. Silence
is filled with comments, so that a reader can tell a quiet server from a dead one.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from treadle.server.answers import encoded
from treadle.server.port import Service
from treadle.server.routes import Serving
from treadle.wire.jobs import LogPiece
from treadle.wire.machine import Who
from treadle.wire.problems import ConflictError, NotFoundError

MEDIA_TYPE = "text/event-stream"
OPENING = b"retry: 1000\n\n"
STILL_HERE = b": still here\n\n"


class Sent(NamedTuple):
    """One event as it goes out. Data is JSON, which has no line breaks."""

    id: str
    data: bytes
    event: str = ""

    def frame(self) -> bytes:
        name = f"event: {self.event}\n".encode() if self.event else b""
        return b"%bid: %b\ndata: %b\n\n" % (name, self.id.encode(), self.data)


class EventStream(Response):
    """The answer that goes on."""

    def __init__(self, events: AsyncIterator[Sent], *, serving: Serving, who: Who) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._serving = serving
        self._user = who.user
        serving.streams.check(who.user)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        with (
            self._serving.streams.counted(self._user),
            self._serving.metrics.streams.track_inprogress(),
        ):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._run(receive, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _run(self, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_until_gone(receive))
        closing = asyncio.create_task(_wait(self._serving.closing))
        step = asyncio.create_task(_next(self._events))
        try:
            await send(_body(OPENING))
            while True:
                done, _ = await asyncio.wait(
                    {gone, closing, step},
                    timeout=self._serving.settings.keep_alive_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if gone in done or closing in done:
                    return
                if step not in done:
                    await send(_body(STILL_HERE))
                    continue
                sent = step.result()
                if sent is None:
                    return
                await send(_body(sent.frame()))
                step = asyncio.create_task(_next(self._events))
        finally:
            for task in (gone, closing, step):
                task.cancel()
            await asyncio.gather(gone, closing, step, return_exceptions=True)
            await close_source(self._events)


async def event_stream(service: Service, *, after: int, job: str) -> AsyncIterator[Sent]:
    """The journal's events from there on."""
    source = service.follow(after=after, job=job)
    try:
        async for event in source:
            yield Sent(str(event.id), encoded(event))
    finally:
        await close_source(source)


async def log_stream(
    serving: Serving, identity: str, *, attempt: int, rank: int, offset: int, onward: bool
) -> AsyncIterator[Sent]:
    """One rank's output as it is written; `onward` into the attempts that follow.

    The id of an event is "attempt:offset", where to go on after it.
    """
    service, clock = serving.service, serving.settings.clock
    while True:
        piece = _piece(service, identity, attempt=attempt, rank=rank, offset=offset)
        if piece is not None and piece.attempt:
            attempt = piece.attempt
            if piece.next != offset or piece.text:
                offset = piece.next
                yield Sent(f"{attempt}:{offset}", encoded(piece))
                continue
        if piece is None or piece.ended:
            detail = service.job(identity)
            newest = max((each.number for each in detail.attempts), default=0)
            if onward and newest > attempt > 0:
                attempt, offset = attempt + 1, 0
                continue
            if detail.job.state.ended or (piece is not None and not onward):
                yield Sent(f"{attempt}:{offset}", b"{}", "end")
                return
        await clock.sleep_until(clock.now() + serving.settings.log_poll_s)


def _piece(
    service: Service, identity: str, *, attempt: int, rank: int, offset: int
) -> LogPiece | None:
    """What there is to read; None while nothing was ever written."""
    try:
        return service.log(identity, attempt=attempt, rank=rank, offset=offset)
    except (NotFoundError, ConflictError):
        return None


async def close_source(source: AsyncIterator[object]) -> None:
    """End a generator now, and not when the garbage collector finds it."""
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


def _body(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _next(events: AsyncIterator[Sent]) -> Sent | None:
    return await anext(events, None)
