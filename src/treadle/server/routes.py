"""What all routes share: their rows, the access check, the service, and who asks."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from treadle.control.api import LiveService
from treadle.server.access import TABLE, Load, Needed, Row, check_access
from treadle.server.auth import Callers
from treadle.server.guard import who_of
from treadle.server.hub import Hub
from treadle.server.limits import StreamCount
from treadle.server.metrics import ServerMetrics
from treadle.server.settings import ServerSettings
from treadle.wire.machine import Who

PREFIX = "/api/v1"
Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(slots=True, kw_only=True)
class Serving:
    """What the routes of one app share."""

    service: LiveService
    callers: Callers
    settings: ServerSettings
    metrics: ServerMetrics
    streams: StreamCount
    hub: Hub
    # Set when the server stops: streams end, so that closing need not wait for their readers.
    closing: asyncio.Event = field(default_factory=asyncio.Event)


async def allowed(request: Request) -> None:
    """Refuse a request that the access table does not allow; runs before any other dependency."""
    row = TABLE[request.method, request.scope["route"].path.removeprefix(PREFIX)]
    check_access(row.needed, who_of(request), job=request.path_params.get("identity", ""))


class Topic:
    """The routes of one topic: a row for each, above the function that answers it."""

    def __init__(self, name: str) -> None:
        self.router = APIRouter(prefix=PREFIX, tags=[name])

    def __call__(
        self,
        method: str,
        path: str,
        needed: Needed,
        answers: object = None,
        *refused: int,  # problems beyond those of every route; document.py fills them in
        load: Load | None = None,  # None: that of a simple read, or of an order
        status: int = 200,
        also: str = "",  # another type than JSON that it can answer with
        response_class: type[Response] = JSONResponse,
    ) -> Callable[[Handler], Handler]:
        usual = Load.READ if method == "GET" else Load.ORDER
        TABLE[method, path] = Row(needed, load or usual)
        responses: dict[int | str, dict[str, Any]] = {each: {} for each in refused}
        if also:
            responses[status] = {"content": {also: {"schema": {"type": "string"}}}}
        return self.router.api_route(
            path,
            methods=[method],
            response_model=answers,
            status_code=status,
            responses=responses,
            response_class=response_class,
        )


async def _serving(request: Request) -> Serving:
    serving = request.app.state.serving
    assert isinstance(serving, Serving)
    return serving


async def _service(request: Request) -> LiveService:
    return (await _serving(request)).service


async def _asking(request: Request) -> Who:
    who = who_of(request)
    # The route's row in the access table has been checked before.
    assert who is not None
    return who


Shared = Annotated[Serving, Depends(_serving)]
Served = Annotated[LiveService, Depends(_service)]
Asking = Annotated[Who, Depends(_asking)]
