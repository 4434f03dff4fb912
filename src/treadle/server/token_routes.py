"""Routes about tokens."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from treadle.server.answers import answer
from treadle.server.routes import PREFIX, Asking, Served, refusals
from treadle.wire.machine import TokenMade, TokenRequest, TokenView
from treadle.wire.problems import NotAllowedError

router = APIRouter(prefix=PREFIX, tags=["people"])


@router.get("/tokens", response_model=tuple[TokenView, ...])
async def list_tokens(service: Served, who: Asking) -> Response:
    """List your tokens, or all tokens for an admin; never their values."""
    return await answer(service.tokens(who))


@router.post("/tokens", response_model=TokenMade, status_code=201, responses=refusals(503))
async def make_token(asked: TokenRequest, service: Served, who: Asking) -> Response:
    """Create a token; only this answer shows its value."""
    # The service checks this as well; a grant is worth two checks.
    if asked.role.level > who.role.level:
        raise NotAllowedError(
            f"user {who.user} has the role {who.role.value} and cannot grant {asked.role.value}",
            hint="a token cannot have a role above yours",
        )
    return await answer(service.make_token(who, asked), status=201)


@router.delete("/tokens/{identity}", status_code=204, responses=refusals(404, 503))
async def revoke_token(
    identity: Annotated[str, Path(max_length=200)], service: Served, who: Asking
) -> Response:
    """Revoke a token."""
    await service.revoke_token(who, identity)
    return Response(status_code=204)
