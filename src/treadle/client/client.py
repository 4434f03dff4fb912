"""The client of the API for ordinary Python.

    with Client() as treadle:
        made = treadle.submit(JobRequest(command=("python", "train.py"), devices="1..4"))
        for piece in treadle.follow_log(made.id):
            ...

Its methods are the functions of `calls.py`, carried out at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import msgspec

from treadle.client import calls
from treadle.client.address import find_address, find_token
from treadle.client.calls import Call
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
from treadle.client.pace import ONE_BY_ONE_MAX, looks, sleep
from treadle.client.stream import EventReader, Received, Resuming
from treadle.wire.jobs import JobDetail, JobView, LogPiece
from treadle.wire.machine import EventView
from treadle.wire.problems import TooManyError

if TYPE_CHECKING:
    import httpx2

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Now(Generic[Arguments, Answer]):
    """A method that carries out the call which a function describes."""

    def __init__(self, describe: Callable[Arguments, Call[Answer]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__
        self.__wrapped__ = describe

    @overload
    def __get__(self, client: None, owner: type) -> Now[Arguments, Answer]: ...

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[Arguments, Answer]: ...

    def __get__(
        self, client: Client | None, owner: type
    ) -> Now[Arguments, Answer] | Callable[Arguments, Answer]:
        if client is None:
            return self

        def carry_out(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            return client.do(self._describe(*args, **kwargs))

        carry_out.__doc__ = self.__doc__
        return carry_out


class Client:
    """Asks a Treadle server, by Unix socket or HTTP. Refusals are the errors of
    `wire/problems.py`."""

    submit = Now(calls.submit)
    dry_run = Now(calls.dry_run)
    job_page = Now(calls.job_page)
    job = Now(calls.job)
    why = Now(calls.why)
    cancel = Now(calls.cancel)
    hold = Now(calls.hold)
    release = Now(calls.release)
    change = Now(calls.change)
    report = Now(calls.report)
    log = Now(calls.log)
    nodes = Now(calls.nodes)
    order_device = Now(calls.order_device)
    unquarantine = Now(calls.unquarantine)
    policy = Now(calls.policy)
    set_policy = Now(calls.set_policy)
    health = Now(calls.health)
    status = Now(calls.status)
    shut_down = Now(calls.shut_down)
    events = Now(calls.events)
    events_last = Now(calls.events_last)
    usage = Now(calls.usage)
    usage_csv = Now(calls.usage_csv)
    snapshot = Now(calls.snapshot)
    debug = Now(calls.debug)
    metrics = Now(calls.metrics)
    tokens = Now(calls.tokens)
    make_token = Now(calls.make_token)
    revoke_token = Now(calls.revoke_token)

    def __init__(
        self, address: str | None = None, token: str | None = None, *, timeout_s: float = 30.0
    ) -> None:
        self.address = find_address(address)
        self._token = find_token(token, self.address)
        self._timeout_s = timeout_s
        self._opened: httpx2.Client | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def do(self, call: Call[Answer]) -> Answer:
        """Carry out a call; a lost connection is tried again where that does no harm."""
        waits, slower = iter(RETRY_S if call.repeatable else ()), iter(SLOWER_S)
        sent = False
        while True:
            try:
                if sent or self._opened is None:
                    knock(self.address)
                return read_answer(call, *self._exchange(call))
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
            sleep(delay_s)

    def jobs(
        self,
        *,
        states: Iterable[str] = (),
        user: str = "",
        tenant: str = "",
        array: str = "",
        name: str = "",
        ended: bool = False,
        page: int = 1000,
    ) -> Iterator[JobView]:
        """All jobs that match, page by page."""
        cursor = ""
        states = tuple(states)
        while True:
            found = self.job_page(
                states=states,
                user=user,
                tenant=tenant,
                array=array,
                name=name,
                ended=ended,
                cursor=cursor,
                limit=page,
            )
            yield from found.jobs
            cursor = found.cursor
            if not cursor:
                return

    def follow_log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0
    ) -> Iterator[LogPiece]:
        """One rank's output as it is written, until the end; goes on after a lost connection."""
        call = calls.log_stream(identity, attempt=attempt, rank=rank, offset=offset)
        for event in self._follow(call):
            yield msgspec.json.decode(event.data, type=LogPiece)

    def follow_events(self, *, after: int | None = None, job: str = "") -> Iterator[EventView]:
        """What happens, as it happens; from now on if `after` is not given."""
        if after is None:
            after = self.events_last(limit=1).next
        for event in self._follow(calls.event_stream(after=after, job=job)):
            yield msgspec.json.decode(event.data, type=EventView)

    def journal(self) -> Iterator[bytes]:
        """The journal as a file, in pieces."""
        call = calls.journal()
        knock(self.address)
        connection, client = self._open()
        with (
            connection.told_plainly(self.address, call),
            client.stream(**request_parts(call)) as response,
        ):
            if response.status_code != 200:
                raise read_refusal(call, response.status_code, response.read())
            yield from response.iter_bytes()

    def wait(
        self, identities: Iterable[str], timeout_s: float | None = None
    ) -> tuple[JobDetail, ...]:
        """Wait until all these jobs have ended; TimeoutError if that takes too long."""
        wanted = tuple(identities)
        ended: dict[str, JobDetail] = {}
        left = set(wanted)
        pace = looks(timeout_s, left)
        while True:
            for identity in self._maybe_ended(left):
                detail = self.job(identity)
                if detail.job.state.ended:
                    ended[identity] = detail
                    left.discard(identity)
            if not left:
                return tuple(ended[identity] for identity in wanted)
            sleep(next(pace))

    def _maybe_ended(self, left: Collection[str]) -> list[str]:
        if len(left) <= ONE_BY_ONE_MAX:
            return sorted(left)
        active = {job.id for job in self.jobs()}
        return sorted(identity for identity in left if identity not in active)

    def _follow(self, call: Call[Any]) -> Iterator[Received]:
        resuming = Resuming()
        while True:
            try:
                knock(self.address)
                for event in self._stream(call, resuming):
                    if event.name == "end":
                        return
                    yield event
                resuming.broken(early(call))
            except (LostError, UnreachableError) as error:
                resuming.broken(error)
            sleep(resuming.delay_s())

    def _stream(self, call: Call[Any], resuming: Resuming) -> Iterator[Received]:
        connection, client = self._open()
        parts = request_parts(call)
        parts["headers"] |= resuming.headers
        timeout = connection.stream_timeout(self._timeout_s)
        with (
            connection.told_plainly(self.address, call),
            client.stream(**parts, timeout=timeout) as response,
        ):
            if response.status_code == 503:
                return
            if response.status_code != 200:
                raise read_refusal(call, response.status_code, response.read())
            resuming.opened()
            reader = EventReader()
            for count, piece in enumerate(response.iter_raw()):
                for event in reader.feed(piece):
                    resuming.saw(event)
                    yield event
                if count:
                    resuming.connected()

    def _exchange(self, call: Call[Any]) -> tuple[int, bytes]:
        connection, client = self._open()
        with (
            connection.told_plainly(self.address, call),
            client.stream(**request_parts(call)) as response,
        ):
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    raise too_long(call)
            return response.status_code, bytes(body)

    def _open(self) -> tuple[ModuleType, httpx2.Client]:
        """The HTTP library and our connections, from the first call on."""
        from treadle.client import connection  # noqa: PLC0415  (loaded when it is needed)

        if self._opened is None:
            self._opened = connection.open_client(
                self.address, self._token, timeout_s=self._timeout_s
            )
        return connection, self._opened
