"""Streams of server-sent events: resumable by their ids, limited in number, quick to end.

FastAPI writes the events and notices a reader that goes away; `guard.py` drops one that is too
slow. A stream also ends when its source does, when the server closes, and when what its reader
showed no longer holds. Silence is filled with comments, so that a reader can tell a quiet server
from a dead one.

FastAPI can also run a generator endpoint as a stream. That takes 190 us an event where this takes
90, fixes the time between comments, and does not end when the server closes.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from treadle.control.api import LiveService
from treadle.server.answers import close_source
from treadle.server.guard import who_of
from treadle.server.routes import Serving
from treadle.wire.jobs import LogPiece
from treadle.wire.problems import ConflictError, NotFoundError, RequestError

RECONNECT_MS = 1000
CHECK_S = 10.0  # how often a stream asks whether its reader may still read

logger = logging.getLogger("treadle")

Frames = AsyncIterator[bytes]


class Standing:
    """Whether a reader is still who they were; looked up now and then, not with every piece."""

    def __init__(self, serving: Serving, request: Request) -> None:
        self._clock = serving.settings.clock
        self._sessions = serving.callers.sessions
        self._state = request.scope["state"]
        self._who = who_of(request)
        self._checked_at = self._clock.now()

    def holds(self) -> bool:
        if self._clock.now() - self._checked_at < CHECK_S:
            return True
        self._checked_at = self._clock.now()
        session, before = self._state.get("session"), self._who
        if before is None or (session is not None and not self._sessions.is_open(session)):
            return False
        now = self._state["shown"]()
        return (
            now is not None
            and now.account == before.account
            and now.role.level >= before.role.level
        )

    async def ends(self) -> None:
        """Wait until it no longer holds."""
        while self.holds():
            await self._clock.sleep_until(self._checked_at + CHECK_S)


class EventStream(StreamingResponse):
    """An open-ended answer; it counts as a stream of its user while it is open."""

    media_type = "text/event-stream"

    def __init__(self, source: Frames, *, serving: Serving, request: Request) -> None:
        who = who_of(request)
        assert who is not None, "a stream's row in the access table asks for a role"
        serving.streams.check(who.user)
        super().__init__(self._frames(), headers={"X-Accel-Buffering": "no"})
        self._source = source
        self._serving = serving
        self._user = who.user
        self._standing = Standing(serving, request)
        self._tasks: list[asyncio.Task[Any]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        serving = self._serving
        try:
            with serving.streams.counted(self._user), serving.metrics.streams.track_inprogress():
                await super().__call__(scope, receive, send)
        finally:
            # Here and not in `_frames`, which is cancelled when the reader goes away: a cancelled
            # task cannot await its own cleanup.
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await close_source(self._source)

    async def _frames(self) -> Frames:
        yield format_sse_event(retry=RECONNECT_MS)
        closing = asyncio.create_task(_wait(self._serving.closing))
        void = asyncio.create_task(self._standing.ends())
        step = asyncio.create_task(_next(self._source))
        self._tasks = [step, closing, void]
        while not closing.done() and not void.done():
            await asyncio.wait(
                self._tasks,
                timeout=self._serving.settings.keep_alive_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not step.done():
                yield KEEPALIVE_COMMENT
                continue
            if (frame := step.result()) is None:
                return
            yield frame
            step = asyncio.create_task(_next(self._source))
            self._tasks[0] = step


async def next_piece(
    service: LiveService, job: str, *, attempt: int, rank: int, offset: int
) -> LogPiece | None:
    """The next part of the output; None while nothing has been written."""
    try:
        return await service.log(job, attempt=attempt, rank=rank, offset=offset)
    except (NotFoundError, ConflictError):
        return None


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _next(frames: Frames) -> bytes | None:
    """The next frame; None at the end, which may be that of a job that was deleted meanwhile."""
    try:
        return await anext(frames, None)
    except RequestError as error:
        logger.info("a stream ends: %s", error)
        return None
