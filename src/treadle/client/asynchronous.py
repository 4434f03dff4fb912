"""The client of the API for asyncio: the methods of `Client`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Iterable
from contextlib import aclosing
from typing import Any, Generic, ParamSpec, TypeVar, overload

import httpx2
import msgspec

from treadle.client import calls
from treadle.client.address import find_address, find_token
from treadle.client.calls import Call
from treadle.client.connection import open_async_client, stream_timeout, told_plainly
from treadle.client.errors import LostError, UnreachableError
from treadle.client.exchange import (
    ANSWER_BYTES_MAX,
    RETRY_S,
    SLOWER_S,
    TOO_FAST,
    early,
    knock,
    read_answer,
    read_refusal,
    request_parts,
    too_long,
)
from treadle.client.pace import ONE_BY_ONE_MAX, looks
from treadle.client.stream import EventReader, Received, Resuming
from treadle.wire.jobs import JobDetail, JobView, LogPiece
from treadle.wire.machine import EventView
from treadle.wire.problems import TooManyError

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Later(Generic[Arguments, Answer]):
    """A method that carries out, when awaited, the call which a function describes."""

    def __init__(self, describe: Callable[Arguments, Call[Answer]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__
        self.__wrapped__ = describe

    @overload
    def __get__(self, client: None, owner: type) -> Later[Arguments, Answer]: ...

    @overload
    def __get__(
        self, client: AsyncClient, owner: type
    ) -> Callable[Arguments, Coroutine[Any, Any, Answer]]: ...

    def __get__(
        self, client: AsyncClient | None, owner: type
    ) -> Later[Arguments, Answer] | Callable[Arguments, Coroutine[Any, Any, Answer]]:
        if client is None:
            return self

        async def carry_out(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            return await client.do(self._describe(*args, **kwargs))

        carry_out.__doc__ = self.__doc__
        return carry_out


class AsyncClient:
    """Asks a Treadle server, by Unix socket or HTTP. Refusals are the errors of
    `wire/problems.py`."""

    submit = Later(calls.submit)
    dry_run = Later(calls.dry_run)
    job_page = Later(calls.job_page)
    job = Later(calls.job)
    why = Later(calls.why)
    cancel = Later(calls.cancel)
    hold = Later(calls.hold)
    release = Later(calls.release)
    change = Later(calls.change)
    report = Later(calls.report)
    log = Later(calls.log)
    nodes = Later(calls.nodes)
    order_device = Later(calls.order_device)
    unquarantine = Later(calls.unquarantine)
    policy = Later(calls.policy)
    set_policy = Later(calls.set_policy)
    health = Later(calls.health)
    status = Later(calls.status)
    shut_down = Later(calls.shut_down)
    events = Later(calls.events)
    events_last = Later(calls.events_last)
    usage = Later(calls.usage)
    usage_csv = Later(calls.usage_csv)
    snapshot = Later(calls.snapshot)
    debug = Later(calls.debug)
    metrics = Later(calls.metrics)
    tokens = Later(calls.tokens)
    make_token = Later(calls.make_token)
    revoke_token = Later(calls.revoke_token)

    def __init__(
        self, address: str | None = None, token: str | None = None, *, timeout_s: float = 30.0
    ) -> None:
        self.address = find_address(address)
        self._token = find_token(token, self.address)
        self._timeout_s = timeout_s
        self._opened: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()
            self._opened = None

    async def do(self, call: Call[Answer]) -> Answer:
        """Carry out a call; a lost connection is tried again where that does no harm."""
        waits, slower = iter(RETRY_S if call.repeatable else ()), iter(SLOWER_S)
        sent = False
        while True:
            try:
                if sent or self._opened is None:
                    knock(self.address)
                return read_answer(call, *await self._exchange(call))
            except UnreachableError:
                # A server that was there a moment ago may be starting again.
                delay_s = next(waits, None) if sent else None
                if delay_s is None:
                    raise
            except LostError:
                sent = True
                delay_s = next(waits, None)
                if delay_s is None:
                    raise
            except TooManyError as error:
                delay_s = next(slower, None) if error.code == TOO_FAST else None
                if delay_s is None:
                    raise
            await asyncio.sleep(delay_s)

    async def jobs(
        self,
        *,
        states: Iterable[str] = (),
        user: str = "",
        tenant: str = "",
        array: str = "",
        name: str = "",
        ended: bool = False,
        page: int = 1000,
    ) -> AsyncIterator[JobView]:
        """All jobs that match, page by page."""
        cursor = ""
        states = tuple(states)
        while True:
            found = await self.job_page(
                states=states,
                user=user,
                tenant=tenant,
                array=array,
                name=name,
                ended=ended,
                cursor=cursor,
                limit=page,
            )
            for job in found.jobs:
                yield job
            cursor = found.cursor
            if not cursor:
                return

    async def follow_log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0
    ) -> AsyncIterator[LogPiece]:
        """One rank's output as it is written, until the end; goes on after a lost connection."""
        call = calls.log_stream(identity, attempt=attempt, rank=rank, offset=offset)
        async with aclosing(self._follow(call)) as received:
            async for event in received:
                yield msgspec.json.decode(event.data, type=LogPiece)

    async def follow_events(
        self, *, after: int | None = None, job: str = ""
    ) -> AsyncIterator[EventView]:
        """What happens, as it happens; from now on if `after` is not given."""
        if after is None:
            after = (await self.events_last(limit=1)).next
        async with aclosing(self._follow(calls.event_stream(after=after, job=job))) as received:
            async for event in received:
                yield msgspec.json.decode(event.data, type=EventView)

    async def journal(self) -> AsyncIterator[bytes]:
        """The journal as a file, in pieces."""
        call = calls.journal()
        knock(self.address)
        with told_plainly(self.address, call):
            async with self._open().stream(**request_parts(call)) as response:
                if response.status_code != 200:
                    raise read_refusal(call, response.status_code, await response.aread())
                async for piece in response.aiter_bytes():
                    yield piece

    async def wait(
        self, identities: Iterable[str], timeout_s: float | None = None
    ) -> tuple[JobDetail, ...]:
        """Wait until all these jobs have ended; TimeoutError if that takes too long."""
        wanted = tuple(identities)
        ended: dict[str, JobDetail] = {}
        left = set(wanted)
        pace = looks(timeout_s, left)
        while True:
            for identity in await self._maybe_ended(left):
                detail = await self.job(identity)
                if detail.job.state.ended:
                    ended[identity] = detail
                    left.discard(identity)
            if not left:
                return tuple(ended[identity] for identity in wanted)
            await asyncio.sleep(next(pace))

    async def _maybe_ended(self, left: Collection[str]) -> list[str]:
        if len(left) <= ONE_BY_ONE_MAX:
            return sorted(left)
        active = {job.id async for job in self.jobs()}
        return sorted(identity for identity in left if identity not in active)

    async def _follow(self, call: Call[Any]) -> AsyncGenerator[Received, None]:
        resuming = Resuming()
        while True:
            try:
                knock(self.address)
                async with aclosing(self._stream(call, resuming)) as events:
                    async for event in events:
                        if event.name == "end":
                            return
                        yield event
                resuming.broken(early(call))
            except (LostError, UnreachableError) as error:
                resuming.broken(error)
            await asyncio.sleep(resuming.delay_s())

    async def _stream(self, call: Call[Any], resuming: Resuming) -> AsyncGenerator[Received, None]:
        parts = request_parts(call)
        parts["headers"] |= resuming.headers
        with told_plainly(self.address, call):
            async with self._open().stream(
                **parts, timeout=stream_timeout(self._timeout_s)
            ) as response:
                if response.status_code == 503:
                    return
                if response.status_code != 200:
                    raise read_refusal(call, response.status_code, await response.aread())
                resuming.opened()
                reader, count = EventReader(), 0
                async for piece in response.aiter_raw():
                    for event in reader.feed(piece):
                        resuming.saw(event)
                        yield event
                    count += 1
                    if count > 1:
                        resuming.connected()

    async def _exchange(self, call: Call[Any]) -> tuple[int, bytes]:
        with told_plainly(self.address, call):
            async with self._open().stream(**request_parts(call)) as response:
                body = bytearray()
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > ANSWER_BYTES_MAX:
                        raise too_long(call)
                return response.status_code, bytes(body)

    def _open(self) -> httpx2.AsyncClient:
        if self._opened is None:
            self._opened = open_async_client(self.address, self._token, timeout_s=self._timeout_s)
        return self._opened
