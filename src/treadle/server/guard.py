"""Checks on every request before any route sees it.

A web page in a browser can send requests to loopback ports. It cannot forge `Host` (a
rebound DNS name shows there), nor leave out `Origin` where it matters; so both are checked on every
method, reads and streams included. No CORS header is ever sent.

The body is read here, of callers whose role the route allows, in full and within limits, so that
no route runs on half a request: too long, too slow, not JSON, or JSON that other programs could not
read back is refused first.
"""

import asyncio
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treadle.server.access import check_access, row_of
from treadle.server.auth import Callers, check_group
from treadle.server.limits import RequestRate
from treadle.server.metrics import ServerMetrics
from treadle.server.problems import broken, refusal
from treadle.server.read_turns import ReadTurns
from treadle.server.settings import ServerSettings
from treadle.wire.machine import Who
from treadle.wire.problems import (
    InvalidRequestError,
    NotAllowedError,
    NotKnownError,
    RequestError,
    TooLargeError,
    TooManyError,
)

UNIX_HOSTS = frozenset({"treadle", "localhost"})
INTEGER_MAX = 2**53  # beyond it, other readers of JSON lose digits
DEPTH_MAX = 64
LOG_IN = ("POST", "/api/v1/session")  # the one request with a body that strangers may send
LOG_IN_BYTES_MAX = 2048
VALUES_MAX = 50_000  # 20 ms to look at; the longest request that can be carried out has 10,000

# An escape of UTF-16 without its other half.
_HALF_PAIR = re.compile(
    rb"(?<!\\)(\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})"
    rb"|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2})",
    re.IGNORECASE,
)

ALONE = frozenset(
    {
        *(b"host", b"origin", b"sec-fetch-site", b"authorization", b"cookie", b"x-csrf-token"),
        *(b"content-type", b"content-length"),
    }
)
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class WrongTypeError(RequestError):
    status, code = 415, "wrong-type"


class TooSlowError(RequestError):
    status, code = 408, "too-slow"


class ReaderStuckError(Exception):
    """The client has read nothing of the answer for too long."""


class Guard:
    """ASGI middleware around all routes."""

    def __init__(
        self, app: ASGIApp, *, callers: Callers, settings: ServerSettings, metrics: ServerMetrics
    ) -> None:
        self._app = app
        self._callers = callers
        self._settings = settings
        self._metrics = metrics
        self._hosts = frozenset(host.lower() for host in settings.hosts)
        self._turns = ReadTurns()
        self._rate = RequestRate(per_s=settings.requests_per_s, burst=settings.requests_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = self._settings.clock.now()
        state = scope.setdefault("state", {})
        state["request_id"] = secrets.token_hex(8)
        outgoing = _Outgoing(send, state["request_id"], self._settings.send_s_max)
        try:
            body = await self._admit(scope, receive, state)
            async with self._turns.of(scope, _bucket(state["who"], state)) as turn:
                outgoing.begins = turn.give_back
                await self._app(scope, _replayed(body, receive), outgoing)
        except ReaderStuckError:
            # What is still in its buffer would hold the connection open.
            state.get("abort", _nothing)()
        except RequestError as error:
            await self._refuse(refusal(error, state["request_id"]), scope, receive, outgoing)
        except Exception as error:
            # The edge of the server: a mistake in one request must not end anything else.
            what = f"{scope['method']} {scope['path']}"
            response = broken(error, state["request_id"], what)
            await self._refuse(response, scope, receive, outgoing)
        finally:
            self._metrics.request(scope, outgoing.status, self._settings.clock.now() - begun)

    async def _admit(self, scope: Scope, receive: Receive, state: dict[str, Any]) -> bytes:
        """Check everything that needs no route; the body if all is well."""
        headers = _single(scope["headers"])
        hosts = UNIX_HOSTS if state.get("unix") else self._hosts | _own_address(scope)
        _check_origin(headers, hosts, opens_page=_opens_page(scope, headers))
        _check_path(scope)
        check_group(self._settings.group, state)
        logs_in = (scope["method"], scope["path"]) == LOG_IN
        who = self._callers.identify(headers, state)
        state["who"] = who
        self._rate.take(_bucket(who, state), self._settings.clock.now())
        if who is not None and not state.get("admitted", _always)(_bucket(who, state)):
            raise TooManyError(
                f"{_bucket(who, state)} has as many connections open as one may have",
                hint="close connections that are not used",
            )
        if not _has_body(headers):
            return b""
        if logs_in:
            return await self._body(headers, receive, LOG_IN_BYTES_MAX)
        if who is None:
            raise NotKnownError(
                "a request with a body needs a token",
                hint="set TREADLE_TOKEN, or use the Unix socket",
            )
        found = row_of(scope["method"], scope["path"])
        if found is None:
            return b""  # There is no route that would read it.
        check_access(found.row.needed, who, job=found.job)
        return await self._body(headers, receive, self._settings.body_bytes_max)

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes:
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != b"application/json":
            raise WrongTypeError(
                "the body should be of type application/json,"
                f" found {kind.decode('latin-1')[:60] or 'none'!r}"
            )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(self._settings.body_s_max):
                body = await _read(receive, limit)
        except TimeoutError:
            raise TooSlowError(
                f"the body had not arrived after {self._settings.body_s_max:g} s"
            ) from None
        _check_json(body)
        return body

    async def _refuse(
        self, response: ASGIApp, scope: Scope, receive: Receive, outgoing: "_Outgoing"
    ) -> None:
        if not outgoing.status:
            await response(scope, receive, outgoing)
        else:  # Half an answer must not look like a whole one.
            scope["state"].get("abort", _nothing)()


class _Outgoing:
    """`send` with our headers on every answer, and a time limit for slow readers."""

    def __init__(self, send: Send, request_id: str, send_s_max: float) -> None:
        self._send = send
        self._send_s_max = send_s_max
        self._headers = (*SECURITY_HEADERS, (b"x-request-id", request_id.encode()))
        self.status = 0
        self.begins: Callable[[], None] = _nothing  # called when the answer begins

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begins()
            self.status = message["status"]
            given = list(message.get("headers", ()))
            names = {name for name, _ in given}  # the page's files have some of their own
            given += [each for each in self._headers if each[0] not in names]
            message["headers"] = given
        try:
            async with asyncio.timeout(self._send_s_max):
                await self._send(message)
        except TimeoutError:
            raise ReaderStuckError from None


def _nothing() -> None:
    """There is no connection to abort."""


def _always(_user: str) -> bool:
    """There is no connection to count."""
    return True


def _single(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers by name; one that matters here and comes twice is a smuggler's."""
    headers: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name in headers and name in ALONE:
            raise RequestError(f"the header {name.decode('latin-1')} was sent twice")
        headers[name] = value
    return headers


def _opens_page(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    """Whether somebody opens the page in a tab, from a link or a file perhaps.

    It has no data in it, and no page may frame it. What it then asks for comes from itself.
    """
    return (
        (scope["method"], scope["path"]) == ("GET", "/")
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _check_origin(
    headers: Mapping[bytes, bytes], hosts: frozenset[str], *, opens_page: bool
) -> None:
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if host not in hosts:
        raise NotAllowedError(
            f"the header Host says {host[:100]!r}, which is not a name of this server",
            hint="use the address that `treadle status` shows, or name the host with --listen",
        )
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower() not in {
        f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")
    }:
        raise NotAllowedError("requests from other origins are refused")
    if opens_page:
        return
    if headers.get(b"sec-fetch-site", b"none").lower() not in {b"none", b"same-origin"}:
        raise NotAllowedError("requests from other sites are refused")


def _check_path(scope: Scope) -> None:
    """Names in paths are names: nothing that climbs, ends a string early, or is encoded twice."""
    path, raw = scope["path"], scope.get("raw_path", b"").lower()
    odd = (
        not path.isprintable()
        or "\\" in path
        or "%" in path
        or b"%2f" in raw
        or any(part in {".", ".."} for part in path.split("/"))
    )
    if odd or b"%00" in scope["query_string"]:
        raise RequestError(
            "the path has characters that are not allowed",
            hint="a name has no slashes, percent signs or control characters, and is not . or ..",
        )


def _has_body(headers: Mapping[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


async def _read(receive: Receive, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError("the connection was closed before the body had arrived")
        body += message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(f"the body is longer than {limit} bytes")


def _check_json(body: bytes) -> None:
    if not body:
        return
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise InvalidRequestError(f"the body is nested deeper than {DEPTH_MAX}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        if found := _HALF_PAIR.search(body):
            half = found[0].decode()
            sentence = f"the body has {half} in it, which is half of a character"
            raise InvalidRequestError(sentence) from None
        raise InvalidRequestError(f"the body is not JSON: {error}") from None
    _check_values(value)


def _check_values(body: object) -> None:
    """Refuse what a database or another program could not keep, and what is too much to look at."""
    waiting: list[tuple[object, int]] = [(body, 0)]
    seen = 0
    while waiting:
        value, depth = waiting.pop()
        inside: tuple[object, ...] = ()
        match value:
            case str() if "\0" in value:
                raise InvalidRequestError("the body has a text with a NUL character in it")
            case int() if abs(value) > INTEGER_MAX:
                raise InvalidRequestError(f"the body has a whole number beyond {INTEGER_MAX}")
            case list():
                inside = tuple(value)
            case dict():
                inside = (*value.keys(), *value.values())
        seen += len(inside)
        if seen > VALUES_MAX:
            raise InvalidRequestError(f"the body has more than {VALUES_MAX} values in it")
        if inside and depth == DEPTH_MAX:
            raise InvalidRequestError(f"the body is nested deeper than {DEPTH_MAX}")
        waiting += [(item, depth + 1) for item in inside]


def _replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` that hands over the body that was read, and afterwards whatever comes."""
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


def _bucket(who: Who | None, state: Mapping[str, Any]) -> str:
    """Which rate limit a request counts against: a job's reports do not count as its user's."""
    if who is None:
        return f"unauthenticated clients at {state.get('network', 'one address')}"
    return f"job {who.job}" if who.job else f"user {who.user}"


def _own_address(scope: Scope) -> frozenset[str]:
    """The address and port that the connection came to.

    A page in a browser cannot make it say that: a rebound name shows as that name.
    """
    host, port = scope.get("server") or ("", None)
    if not host or port is None or host in {"0.0.0.0", "::"}:
        return frozenset()
    return frozenset({f"[{host}]:{port}" if ":" in host else f"{host}:{port}"})


def who_of(request: Request) -> Who | None:
    """The caller, as the guard identified it."""
    state: MutableMapping[str, Any] = request.scope["state"]
    who = state.get("who")
    assert who is None or isinstance(who, Who)
    return who
