"""Takes the reports of the jobs on a node, for a controller on another machine.

It answers `POST /api/v1/jobs/ID/report` as the API does, to jobs that this node runs and that show
the token they were launched with. Only the newest report of each job is kept, until the controller
has it (Agent._facts).

The address is a name, not a file: ranks of other users could not reach a file in the agent's
folder, and nothing is left of a name when its process dies. The agent that follows takes the same
name, so that jobs go on reporting. Anyone may take a name that is free; so jobs believe only a
server of their own user, or root (report.py).
"""

import asyncio
import hmac
import logging
import re
import secrets
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace as with_fields
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote

import h11
import msgspec

from treadle.core.job import JobId
from treadle.core.job_report import JobReport, Report
from treadle.engines.node import fence
from treadle.files import replace

WITHIN_S = 5.0  # for a whole request; a job waits no longer for its answer
HEAD_BYTES_MAX, BODY_BYTES_MAX = 8192, 4096
OPEN_MAX, OPEN_PER_USER_MAX = 128, 64
PER_S_MAX = 200  # requests of one user in a second; a job makes one
_PATH = re.compile(rb"/api/v1/jobs/([^/?]{1,200})/report")
_NAME = re.compile(r"treadle-reports-[0-9a-f]{16}")
_PEER = struct.Struct("3i")  # process, user, group

# The token of a job that this node runs; empty: it runs no such job; None: not known now.
TokenOf = Callable[[JobId], str | None]
logger = logging.getLogger("treadle")


class ReportRelay:
    """Lives on the agent's event loop."""

    def __init__(self, root: Path, token_of: TokenOf, *, within_s: float = WITHIN_S) -> None:
        """root: of the agent; the name is kept there."""
        self._root, self._token_of, self._within_s = root, token_of, within_s
        self._closed = False  # for ever: the next agent has another
        self._server: asyncio.Server | None = None
        self._name = ""
        self._said = ""  # why it could not listen
        self._upto = 0  # reports taken so far
        self._kept: dict[JobId, tuple[int, JobReport]] = {}  # with the number of each
        self._open: dict[asyncio.StreamWriter, int] = {}  # connections, with their users
        self._second, self._asked = 0, Counter[int]()  # requests of each user in this second

    @property
    def address(self) -> str:
        """Where jobs of this node report; empty if they cannot."""
        return "" if self._server is None else f"unix:@{self._name}"

    async def open(self) -> None:
        """Listen, unless it does. What is in the way may go: call it again and again."""
        if self._server is not None or self._closed:
            return
        try:
            self._name = self._name or self._kept_name()
            self._server = await asyncio.start_unix_server(self._serve, f"\0{self._name}")
        except (OSError, ValueError) as error:
            if str(error) != self._said:
                self._said = str(error)
                logger.warning("jobs on this node cannot report their progress: %s", error)

    def close(self) -> None:
        self._closed = True
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open:
            writer.close()

    def given(self, after: int) -> tuple[tuple[JobReport, ...], int]:
        """The newest reports, and their number; those up to `after` were taken and are dropped."""
        self._kept = {job: each for job, each in self._kept.items() if each[0] > after}
        return tuple(report for _, report in self._kept.values()), self._upto

    def _kept_name(self) -> str:
        path = self._root / "reports"
        with suppress(FileNotFoundError):
            if _NAME.fullmatch(kept := path.read_text()):
                return kept
        name = f"treadle-reports-{secrets.token_hex(8)}"
        replace(path, name.encode(), mode=0o600)
        return name

    # -- one connection, for one request ----------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = _uid(writer)
        if self._is_too_much(uid):
            writer.write(_answer(HTTPStatus.TOO_MANY_REQUESTS))
            writer.close()
            return
        self._open[writer] = uid
        try:
            async with asyncio.timeout(self._within_s):
                writer.write(_answer(await self._status(reader)))
                await writer.drain()
        except (TimeoutError, OSError):
            pass  # It reports again with its next step.
        finally:
            del self._open[writer]
            writer.close()

    def _is_too_much(self, uid: int) -> bool:
        if self._second != (now := int(fence.now())):
            self._second, self._asked = now, Counter()
        self._asked[uid] += 1
        own = sum(1 for each in self._open.values() if each == uid)
        too_many = len(self._open) >= OPEN_MAX or own >= OPEN_PER_USER_MAX
        return too_many or self._asked[uid] > PER_S_MAX

    async def _status(self, reader: asyncio.StreamReader) -> HTTPStatus:
        request: h11.Request | None = None
        body = b""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        try:
            while True:
                match connection.next_event():
                    case h11.NEED_DATA:
                        connection.receive_data(await reader.read(HEAD_BYTES_MAX))
                    case h11.Request() as request:
                        if connection.they_are_waiting_for_100_continue:
                            return HTTPStatus.EXPECTATION_FAILED
                    case h11.Data() as data:
                        body += data.data
                        if len(body) > BODY_BYTES_MAX:
                            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                    case h11.EndOfMessage() if request is not None:
                        return self._take(request, body)
                    case _:
                        return HTTPStatus.BAD_REQUEST
        except h11.RemoteProtocolError:
            return HTTPStatus.BAD_REQUEST

    def _take(self, request: h11.Request, body: bytes) -> HTTPStatus:
        found = _PATH.fullmatch(request.target)
        if found is None:
            return HTTPStatus.NOT_FOUND
        if request.method != b"POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        job = unquote(found[1].decode("ascii"))
        token = self._token_of(job)
        if token is None:
            return HTTPStatus.SERVICE_UNAVAILABLE
        if not token:
            return HTTPStatus.NOT_FOUND
        shown = dict(request.headers).get(b"authorization", b"")
        if not hmac.compare_digest(shown, b"Bearer " + token.encode()):
            return HTTPStatus.UNAUTHORIZED
        try:
            report = msgspec.json.decode(body, type=Report)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return HTTPStatus.BAD_REQUEST
        if job in self._kept:
            report = _over(report, self._kept[job][1].report)
        self._upto += 1
        taken = JobReport(job=job, token=token, report=report, at=fence.now())
        self._kept[job] = (self._upto, taken)
        return HTTPStatus.NO_CONTENT


def _over(newer: Report, older: Report) -> Report:
    """A value that is not given stays as it was said: the older report is never handed on."""
    kept = {
        name: getattr(older, name)
        for name in ("total", "loss", "checkpoint", "stages")
        if getattr(newer, name) is None
    }
    return with_fields(newer, **kept)


def _uid(writer: asyncio.StreamWriter) -> int:
    peer = writer.get_extra_info("socket").getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size
    )
    uid: int = _PEER.unpack(peer)[1]
    return uid


def _answer(status: HTTPStatus) -> bytes:
    length = "" if status is HTTPStatus.NO_CONTENT else "Content-Length: 0\r\n"
    return f"HTTP/1.1 {status.value} {status.phrase}\r\n{length}Connection: close\r\n\r\n".encode()
