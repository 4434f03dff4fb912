"""Routes about tokens."""

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from treadle.server.answers import answer
from treadle.server.routes import Asking, Served, Topic
from treadle.wire.machine import TokenMade, TokenRequest, TokenView
from treadle.wire.problems import NotAllowedError

topic = Topic("people")


@topic.route("GET", "/tokens", answer=tuple[TokenView, ...])
async def list_tokens(service: Served, who: Asking) -> Response:
    """Your tokens, or everybody's for an admin; never the tokens themselves."""
    return answer(service.tokens(who))


@topic.route("POST", "/tokens", answer=TokenMade, status=201, refusals=(503,))
async def make_token(asked: TokenRequest, service: Served, who: Asking) -> Response:
    """Make a token; this answer is the only one that shows it."""
    # The service checks this as well: what is granted is worth two looks.
    if asked.role.level > who.role.level:
        raise NotAllowedError(
            f"user {who.user} has the role {who.role.value} and cannot grant {asked.role.value}",
            hint="nobody grants more than they have",
        )
    return answer(await service.make_token(who, asked), status=201)


@topic.route("DELETE", "/tokens/{identity}", status=204, refusals=(404, 503))
async def revoke_token(
    identity: Annotated[str, Path(max_length=200)], service: Served, who: Asking
) -> Response:
    """Revoke a token at once."""
    await service.revoke_token(who, identity)
    return Response(status_code=204)
