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
    """Your tokens, or everybody's for an admin; never the tokens themselves."""
    return await answer(service.tokens(who))


@router.post("/tokens", response_model=TokenMade, status_code=201, responses=refusals(503))
async def make_token(asked: TokenRequest, service: Served, who: Asking) -> Response:
    """Make a token; this answer is the only one that shows it."""
    # The service checks this as well: what is granted is worth two looks.
    if asked.role.level > who.role.level:
        raise NotAllowedError(
            f"user {who.user} has the role {who.role.value} and cannot grant {asked.role.value}",
            hint="nobody grants more than they have",
        )
    return await answer(service.make_token(who, asked), status=201)


@router.delete("/tokens/{identity}", status_code=204, responses=refusals(404, 503))
async def revoke_token(
    identity: Annotated[str, Path(max_length=200)], service: Served, who: Asking
) -> Response:
    """Revoke a token at once."""
    await service.revoke_token(who, identity)
    return Response(status_code=204)
