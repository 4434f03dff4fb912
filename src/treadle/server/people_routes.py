"""Routes about people: tokens, and sessions, by which the web page logs in and out."""

from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from treadle.server.access import OPEN
from treadle.server.answers import answer
from treadle.server.auth import cookie_name
from treadle.server.routes import Asking, Served, Shared, Topic
from treadle.server.sessions import SESSION_S_MAX
from treadle.wire.machine import Role, TokenMade, TokenRequest, TokenView
from treadle.wire.problems import ConflictError, InvalidRequestError
from treadle.wire.sessions import LinkMade, SessionRequest, SessionView

route = Topic("people")


User = Annotated[str, Query(max_length=64, description="only those of this user; for admins")]


@route("GET", "/tokens", Role.USER, tuple[TokenView, ...])
async def list_tokens(service: Served, who: Asking, user: User = "") -> Response:
    """List your tokens, or all tokens for an admin; never their values."""
    return await answer(service.tokens(who, user=user))


@route("POST", "/tokens", Role.USER, TokenMade, 503, status=201)
async def make_token(asked: TokenRequest, service: Served, who: Asking) -> Response:
    """Create a token; only this answer shows its value."""
    return await answer(service.make_token(who, asked), status=201)


@route("DELETE", "/tokens", Role.USER, tuple[TokenView, ...], 503)
async def revoke_tokens(service: Served, who: Asking, user: User = "") -> Response:
    """Revoke all your tokens, or for an admin all of a user; returns those."""
    return await answer(service.revoke_tokens(who, user=user))


@route("DELETE", "/tokens/{identity}", Role.USER, None, 404, 503, status=204)
async def revoke_token(
    identity: Annotated[str, Path(max_length=200)], service: Served, who: Asking
) -> Response:
    """Revoke a token."""
    await service.revoke_token(who, identity)
    return Response(status_code=204)


@route("POST", "/session", OPEN, SessionView, 401, status=201)
async def begin_session(asked: SessionRequest, shared: Shared, request: Request) -> Response:
    """Log in with a token or a link.

    Sets a cookie. It counts only with the answer's `csrf` in the header X-CSRF-Token of every
    request, reads and streams too; no other answer has it.
    """
    if bool(asked.token) == bool(asked.link):
        raise InvalidRequestError("give a token or a link, and not both")
    callers, state = shared.callers, request.scope["state"]
    if asked.token:
        who, shown = callers.log_in(asked.token, state)
    else:
        who, shown = callers.log_in_by_link(asked.link, state)
    if state.get("session") is not None:  # of the same browser
        callers.sessions.end(state["session"])
    halves, session = callers.sessions.begin(who, shown)
    view = SessionView(
        user=who.user, role=who.role, expires_at=session.expires_at, csrf=halves.csrf
    )
    found = await answer(view, status=201)
    _set_cookie(found, halves.cookie, int(SESSION_S_MAX), request)
    return found


@route("GET", "/session", Role.VIEWER, SessionView)
async def get_session(who: Asking, request: Request) -> Response:
    """Show who you are, and until when."""
    session = request.scope["state"].get("session")
    expires_at = who.expires_at if session is None else session.expires_at
    return await answer(SessionView(user=who.user, role=who.role, expires_at=expires_at))


@route("DELETE", "/session", Role.VIEWER, status=204)
async def end_session(shared: Shared, request: Request) -> Response:
    """Log out; the server forgets the session. A caller with a token has none."""
    session = request.scope["state"].get("session")
    if session is not None:
        shared.callers.sessions.end(session)
    found = Response(status_code=204)
    _set_cookie(found, "", 0, request)
    return found


@route("POST", "/session/link", Role.USER, LinkMade, 409, status=201)
async def make_link(shared: Shared, who: Asking, request: Request) -> Response:
    """Make a link that logs a browser in as you: once, and within a minute."""
    state = request.scope["state"]
    base = f"{request.scope['scheme']}://{request.headers['host']}"  # the guard has checked it
    if state.get("unix"):
        base = shared.service.status().url
    if not base:
        raise ConflictError(
            "the daemon listens on its Unix socket only, where no browser can reach it",
            hint="start it without --no-port",
        )
    code, expires_at = shared.callers.sessions.make_link(who, state["shown"])
    made = LinkMade(url=f"{base}/#/login/{code}", expires_at=expires_at)
    return await answer(made, status=201)


def _set_cookie(found: Response, value: str, age_s: int, request: Request) -> None:
    found.set_cookie(
        cookie_name(request.headers["host"]),
        value,
        max_age=age_s,
        path="/",
        secure=request.scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )
