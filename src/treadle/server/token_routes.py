"""Routes about tokens."""

from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from treadle.server.answers import answer
from treadle.server.routes import Asking, Served, Topic
from treadle.wire.machine import Role, TokenMade, TokenRequest, TokenView
from treadle.wire.problems import NotAllowedError

route = Topic("people")


User = Annotated[str, Query(max_length=64, description="only those of this user; for admins")]


@route("GET", "/tokens", Role.USER, tuple[TokenView, ...])
async def list_tokens(service: Served, who: Asking, user: User = "") -> Response:
    """List your tokens, or all tokens for an admin; never their values."""
    return await answer(service.tokens(who, user=user))


@route("POST", "/tokens", Role.USER, TokenMade, 503, status=201)
async def make_token(asked: TokenRequest, service: Served, who: Asking) -> Response:
    """Create a token; only this answer shows its value."""
    # The service checks this as well; a grant is worth two checks.
    if asked.role.level > who.role.level:
        raise NotAllowedError(
            f"user {who.user} has the role {who.role.value} and cannot grant {asked.role.value}",
            hint="a token cannot have a role above yours",
        )
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
