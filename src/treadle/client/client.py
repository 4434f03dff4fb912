"""The client of the API for ordinary Python.

with Client() as treadle:
    made = treadle.submit(JobRequest(command=("python", "train.py"), devices="1..4"))
    for piece in treadle.follow_log(made.id):
        ...
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from treadle.client import calls
from treadle.client.calls import Call, Which
from treadle.client.errors import LostError, NoAnswerError, UnreachableError
from treadle.client.exchange import (
    ANSWER_BYTES_MAX,
    Tries,
    early,
    knock,
    read_answer,
    read_event,
    read_refusal,
    request_parts,
    too_long,
)
from treadle.client.methods import Methods
from treadle.client.resuming import Resuming
from treadle.client.wait_polling import ONE_BY_ONE_MAX, Absence, looks, sleep
from treadle.core.allocation import Pause
from treadle.core.errors import TreadleError
from treadle.wire.job_orders import IDS_MAX, JobOutcome, JobsOrder, Verb
from treadle.wire.problems import UnavailableError

if TYPE_CHECKING:
    import httpx2

    from treadle.wire.jobs import JobChange, JobDetail, JobView, LogPiece
    from treadle.wire.machine import EventView

Answer = TypeVar("Answer")


class Client(Methods):
    """Talks to a Treadle server over its Unix socket or HTTP. Refusals are the errors of
    `wire/problems.py`."""

    _opened: httpx2.Client | None = None

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
        tries = Tries(call)
        while True:
            try:
                if tries.sent or self._opened is None:
                    knock(self.address)
                return read_answer(call, *self._exchange(call))
            except TreadleError as error:
                delay_s = tries.again_in_s(error)
                if delay_s is None:
                    raise
            sleep(delay_s)

    def jobs(self, *, page: int = 1000, **which: Unpack[Which]) -> Iterator[JobView]:
        """All jobs that match, page by page."""
        cursor = ""
        which["states"] = tuple(which.get("states", ()))
        while True:
            found = self.job_page(cursor=cursor, limit=page, **which)
            yield from found.jobs
            cursor = found.cursor
            if not cursor:
                return

    def order(
        self,
        verb: Verb | str,
        identities: Iterable[str],
        *,
        change: JobChange | None = None,
        how: str = "frozen",
    ) -> tuple[JobOutcome, ...]:
        """One order for any number of jobs; for each id what was done, or why it was refused.

        how: jobs are paused, frozen or suspended.
        Up to 1,000 ids are one request, committed together; more are sent in several.
        """
        ids = tuple(dict.fromkeys(identities))
        outcomes: list[JobOutcome] = []
        for start in range(0, len(ids), IDS_MAX):
            some = JobsOrder(
                verb=Verb(verb), ids=ids[start : start + IDS_MAX], change=change, how=Pause(how)
            )
            outcomes += (self.order_jobs(some)).outcomes
        return tuple(outcomes)

    def follow_log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0
    ) -> Iterator[LogPiece]:
        """Stream one rank's output until the job ends; reconnects when the connection is lost."""
        call = calls.log_stream(identity, attempt=attempt, rank=rank, offset=offset)
        with closing(self._follow(call)) as events:
            for event in events:
                yield read_event(call, event.data)

    def follow_events(self, *, after: int | None = None, job: str = "") -> Iterator[EventView]:
        """Stream events as they happen; without `after`, from now on."""
        if after is None:
            after = (self.events_last(limit=1)).next
        call = calls.event_stream(after=after, job=job)
        with closing(self._follow(call)) as events:
            for event in events:
                yield read_event(call, event.data)

    def journal(self) -> Iterator[bytes]:
        """Download the journal as JSON lines, in pieces."""
        call = calls.journal()
        knock(self.address)
        with self._sent(call) as response:
            if response.status_code != 200:
                raise read_refusal(call, response.status_code, response.read())
            yield from response.iter_bytes()

    def wait(
        self, identities: Iterable[str], timeout_s: float | None = None
    ) -> tuple[JobDetail, ...]:
        """Wait until all these jobs have ended; TimeoutError if that takes too long.

        A server that restarts meanwhile is waited for, up to an hour.
        """
        wanted = tuple(identities)
        ended: dict[str, JobDetail] = {}
        left = set(wanted)
        pace, absence = looks(timeout_s, left), Absence()
        while True:
            try:
                for identity in self._maybe_ended(left):
                    detail = self.job(identity)
                    if detail.job.state.ended:
                        ended[identity] = detail
                        left.discard(identity)
                absence.answered()
            except (UnreachableError, NoAnswerError, UnavailableError) as error:
                absence.lasts(error)
            if not left:
                return tuple(ended[identity] for identity in wanted)
            sleep(next(pace))

    def _maybe_ended(self, left: Collection[str]) -> list[str]:
        if len(left) <= ONE_BY_ONE_MAX:
            return sorted(left)
        active = {job.id for job in self.jobs()}
        return sorted(identity for identity in left if identity not in active)

    def _follow(self, call: Call[Any]) -> Generator[httpx2.ServerSentEvent, None, None]:
        """The events of a stream, until its last one, over as many connections as it takes."""
        resuming = Resuming()
        while True:
            try:
                knock(self.address)
                with closing(self._stream(call, resuming)) as events:
                    for event in events:
                        if event.event == "end":
                            return
                        yield event
                resuming.broken(early(call))
            except (LostError, UnreachableError) as error:
                resuming.broken(error)
            sleep(resuming.delay_s())

    def _stream(
        self, call: Call[Any], resuming: Resuming
    ) -> Generator[httpx2.ServerSentEvent, None, None]:
        """The events that one connection brings."""
        with self._sent(call, resuming) as response:
            if response.status_code == 503:
                return
            if response.status_code != 200:
                raise read_refusal(call, response.status_code, response.read())
            from treadle.client.connection import events_of  # noqa: PLC0415  (see _sent)

            resuming.opened()
            for event in events_of(response):
                if event.data:
                    resuming.saw(event.id)
                    yield event

    def _exchange(self, call: Call[Any]) -> tuple[int, bytes]:
        with self._sent(call) as response:
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    raise too_long(call)
            return response.status_code, bytes(body)

    @contextmanager
    def _sent(self, call: Call[Any], resuming: Resuming | None = None) -> Iterator[httpx2.Response]:
        """Send a call; the block reads its answer. `resuming` says where a stream continues."""
        from treadle.client import connection  # noqa: PLC0415  (115 ms, so only when it is needed)

        if self._opened is None:
            self._opened = connection.open_client(
                self.address, self._token, timeout_s=self._timeout_s
            )
        parts = request_parts(call)
        if resuming is not None:
            parts["headers"] |= resuming.headers
            parts["timeout"] = connection.stream_timeout(self._timeout_s)
        with connection.plain_errors(self.address, call), self._opened.stream(**parts) as response:
            yield response
