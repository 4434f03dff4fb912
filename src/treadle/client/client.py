"""The client of the API for ordinary Python.

with Client() as treadle:
    made = treadle.submit(JobRequest(command=("python", "train.py"), devices="1..4"))
    for piece in treadle.follow_log(made.id):
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

from treadle.client.address import Address, find_address, find_token
from treadle.client.calls import PREFIX, Call, Calls, Which
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.client.exchange import (
    ANSWER_BYTES_MAX,
    Tries,
    knock,
    read_answer,
    read_refusal,
    request_parts,
    too_long,
)
from treadle.client.wait_polling import ONE_BY_ONE_MAX, Absence, looks, sleep
from treadle.core.allocation import Pause
from treadle.core.errors import TreadleError
from treadle.wire.job_orders import IDS_MAX, JobOutcome, JobsOrder, Verb
from treadle.wire.problems import ConflictError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    import httpx2

    from treadle.wire.jobs import JobChange, JobDetail, JobView, LogPiece
    from treadle.wire.machine import EventView

FOLLOW_S = 0.5  # between looks for more of what is followed
EVENTS_PAGE = 1000

Answer = TypeVar("Answer")


class Client(Calls):
    """Talks to a Treadle server over its Unix socket or HTTP. Refusals are the errors of
    `wire/problems.py`."""

    _opened: httpx2.Client | None = None

    def __init__(
        self,
        address: str | Address | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        self.address = address if isinstance(address, Address) else find_address(address)
        self._token = find_token(token, self.address)
        self._timeout_s = timeout_s

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def do(self, call: Call) -> object:
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
        """One rank's output as it is written, until the job ends; of the newest attempt, and of
        those that follow it, if none is named.

        A server that restarts meanwhile is waited for, up to an hour.
        """
        job, onward, over, absence = self.job(identity).job.id, attempt == 0, False, Absence()
        while True:
            read = partial(self._piece, job, attempt=attempt, rank=rank, offset=offset)
            piece = self._patiently(absence, read)
            if piece is not None and (piece.text or piece.next != offset):
                attempt, offset = piece.attempt, piece.next
                yield piece
                continue
            if piece is None or piece.ended:
                detail = self._patiently(absence, partial(self.job, job))
                newest = max((each.number for each in detail.attempts), default=0)
                if onward and newest > attempt > 0:
                    attempt, offset = attempt + 1, 0
                    continue
                if over or (piece is not None and not onward):
                    return
                over = detail.job.state.ended  # What it wrote last is read once more.
            if not over:
                sleep(FOLLOW_S)

    def _piece(self, identity: str, *, attempt: int, rank: int, offset: int) -> LogPiece | None:
        """The next part of an output; None while nothing has been written."""
        try:
            return self.log(identity, attempt=attempt, rank=rank, offset=offset)
        except (NotFoundError, ConflictError):
            return None

    def follow_events(self, *, after: int | None = None, job: str = "") -> Iterator[EventView]:
        """Events as they happen; without `after`, from now on.

        A server that restarts meanwhile is waited for, up to an hour.
        """
        absence = Absence()
        after = self.events_last(limit=1).next if after is None else after
        while True:
            read = partial(self.events, after=after, job=job, limit=EVENTS_PAGE)
            page = self._patiently(absence, read)
            yield from page.events
            after = page.next
            if not page.events:
                sleep(FOLLOW_S)

    def _patiently(self, absence: Absence, ask: Callable[[], Answer]) -> Answer:
        """The answer, once there is one."""
        while True:
            try:
                found = ask()
            except (UnreachableError, NoAnswerError, UnavailableError) as error:
                absence.lasts(error)
                sleep(FOLLOW_S)
            else:
                absence.answered()
                return found

    def journal(self) -> Iterator[bytes]:
        """Download the journal as JSON lines, in pieces."""
        call = Call(method="GET", path=f"{PREFIX}/journal", answer="bytes")
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

    def _exchange(self, call: Call) -> tuple[int, bytes]:
        with self._sent(call) as response:
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    raise too_long(call)
            return response.status_code, bytes(body)

    @contextmanager
    def _sent(self, call: Call) -> Iterator[httpx2.Response]:
        """Send a call; the block reads its answer."""
        from treadle.client import connection  # noqa: PLC0415  (115 ms, so only when it is needed)

        if self._opened is None:
            self._opened = connection.open_client(
                self.address, self._token, timeout_s=self._timeout_s
            )
        parts = request_parts(call)
        with connection.plain_errors(self.address, call), self._opened.stream(**parts) as response:
            yield response
