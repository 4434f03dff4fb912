"""Errors as RFC 9457 problems: one sentence, a stable code, and a hint.

Every error has this shape, also the framework's own. A value that was sent is repeated only where
it cannot be a secret.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from treadle.core.errors import InvalidInputError
from treadle.core.wording import closest
from treadle.server.answers import encoded
from treadle.store.errors import StoreError
from treadle.wire.problems import BusyError, InvalidRequestError, RequestError, UnavailableError

MEDIA_TYPE = "application/problem+json"
SHOWN_MAX = 60

log = logging.getLogger("treadle.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a request failed (RFC 9457)."""

    status: int
    title: str
    code: str  # a stable word, for programs
    detail: str  # one sentence, for people
    hint: str = ""  # what to do about it
    request_id: str = ""  # as in the header X-Request-ID and in the server's log
    type: str = "about:blank"


def refusal(error: RequestError, request_id: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if error.status == HTTPStatus.UNAUTHORIZED else {}
    if error.status == HTTPStatus.TOO_MANY_REQUESTS:
        headers["Retry-After"] = "1"
    if isinstance(error, BusyError):
        headers["Retry-After"] = str(error.after_s)
    return _response(error.status, error.code, str(error), error.hint, request_id, headers=headers)


def broken(error: BaseException, request_id: str, what: str) -> Response:
    """A bug of ours: the log has the traceback, the answer only the request's id."""
    log.error("request %s (%s) failed", request_id, what, exc_info=error)
    return _response(
        500,
        "internal",
        "internal server error",
        f"the server's log has the details under request {request_id}",
        request_id,
    )


def handle_problems(app: FastAPI, *, fields: Sequence[str]) -> None:
    """Give every error that a route can raise the shape of a problem."""

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        return refusal(error, request_id_of(request))

    async def invalid_input(request: Request, error: Exception) -> Response:
        return refusal(InvalidRequestError(str(error)), request_id_of(request))

    async def out_of_order(request: Request, error: Exception) -> Response:
        found = UnavailableError(f"the store is not available: {error}", hint="try again")
        return refusal(found, request_id_of(request))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _framework(error, request)

    async def validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refusal(_invalid(error.errors(), fields), request_id_of(request))

    app.add_exception_handler(RequestError, known)
    app.add_exception_handler(InvalidInputError, invalid_input)
    app.add_exception_handler(StoreError, out_of_order)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, validation)


def request_id_of(request: Request) -> str:
    identity = request.scope["state"].get("request_id", "")
    assert isinstance(identity, str)
    return identity


_WORDS = {404: "not-found", 405: "wrong-method", 400: "bad-request", 415: "wrong-type"}


def _framework(error: HTTPException, request: Request) -> Response:
    status = error.status_code
    where = f"{request.method} {request.url.path[:200]}"
    detail, hint = str(error.detail), ""
    if status == HTTPStatus.NOT_FOUND:
        detail, hint = f"there is no {where}", "GET /api/v1/openapi.json lists the routes"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "another method")
        detail = f"{where} is not supported (allowed: {allowed})"
    code = _WORDS.get(status, "bad-request")
    return _response(status, code, detail, hint, request_id_of(request), headers=error.headers)


def _response(
    status: int,
    code: str,
    detail: str,
    hint: str,
    request_id: str,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    problem = Problem(
        status=status,
        title=HTTPStatus(status).phrase,
        code=code,
        detail=detail,
        hint=hint,
        request_id=request_id,
    )
    return Response(encoded(problem), status_code=status, headers=headers, media_type=MEDIA_TYPE)


def _invalid(errors: Sequence[Any], fields: Sequence[str]) -> InvalidRequestError:
    """The first error as a sentence; how many more there are goes into the hint."""
    first = errors[0]
    place, *path = (str(part) for part in first["loc"])
    name = ".".join(path)
    more = f"{len(errors) - 1} more like this" if len(errors) > 1 else ""
    where = {"query": "query parameter", "path": "path parameter", "header": "header"}
    what = f"{where.get(place, 'field')} {name!r}" if name else "the body"
    match first["type"]:
        case "missing":
            return InvalidRequestError(f"{what} is missing", hint=more)
        case "extra_forbidden" | "unexpected_keyword_argument":
            if path[-1] in fields:
                return InvalidRequestError(
                    f"{what} cannot be given here",
                    hint="other requests have it; a job keeps what it was submitted with but for "
                    "name, priority, tenant, devices and time_limit_s",
                )
            near = closest(path[-1], fields)
            hint = f"did you mean {near!r}?" if near else more
            return InvalidRequestError(f"{what} is unknown", hint=hint)
    # The library's sentences begin with what was read: "Input should be ...", "String should ...".
    _, should, expected = str(first["msg"]).partition(" should ")
    said = f"should {expected}" if should else f"cannot be used: {first['msg']}"
    found = _shown(first.get("input"), path)
    return InvalidRequestError(f"{what} {said.rstrip('.')}, found {found}", hint=more)


_SECRET = {"secrets", "env", "token", "link"}


def _shown(value: object, path: Sequence[str]) -> str:
    """What was sent, unless it may be a secret or is long."""
    if isinstance(value, str | int | float | bool | None) and not _SECRET & set(path):
        text = repr(value)
        cut = f"{text[:SHOWN_MAX]}... ({len(text)} characters)"
        return text if len(text) <= SHOWN_MAX else cut
    return f"a value of type {type(value).__name__}"
