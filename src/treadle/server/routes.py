"""A route as data, and what every route may ask for: the service, and who asks.

Topics (`jobs.py`, `machine.py`, ...) collect their routes in a list; `app.py` joins each with its
row of the access table and hands it to FastAPI.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.responses import Response

from treadle.server.guard import who_of
from treadle.server.limits import StreamCount
from treadle.server.metrics import ServerMetrics
from treadle.server.port import Service
from treadle.server.settings import ServerSettings
from treadle.wire.machine import Who

Endpoint = TypeVar("Endpoint", bound=Callable[..., Awaitable[Response]])


@dataclass(slots=True, kw_only=True)
class Serving:
    """What the routes of one app share."""

    service: Service
    settings: ServerSettings
    metrics: ServerMetrics
    streams: StreamCount
    # Set when the server stops: streams end, so that closing need not wait for their readers.
    closing: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str
    endpoint: Callable[..., Awaitable[Response]]
    topic: str
    answer: Any = None  # the type of the JSON that comes back
    status: int = 200
    media_type: str = ""  # of an answer that is not JSON
    also: str = ""  # another type that may be asked for
    refusals: tuple[int, ...] = ()  # beyond those that every route has


class Topic:
    """Collects routes that belong together."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.routes: list[Route] = []

    def route(
        self,
        method: str,
        path: str,
        *,
        answer: Any = None,  # noqa: ANN401  (types of any form: tuple[X, ...] too)
        status: int = 200,
        media_type: str = "",
        also: str = "",
        refusals: tuple[int, ...] = (),
    ) -> Callable[[Endpoint], Endpoint]:
        def collect(endpoint: Endpoint) -> Endpoint:
            self.routes.append(
                Route(
                    method=method,
                    path=path,
                    endpoint=endpoint,
                    topic=self._name,
                    answer=answer,
                    status=status,
                    media_type=media_type,
                    also=also,
                    refusals=refusals,
                )
            )
            return endpoint

        return collect


async def _serving(request: Request) -> Serving:
    serving = request.app.state.serving
    assert isinstance(serving, Serving)
    return serving


async def _service(request: Request) -> Service:
    return (await _serving(request)).service


async def _asking(request: Request) -> Who:
    who = who_of(request)
    # The route's row in the access table has been checked before.
    assert who is not None
    return who


Shared = Annotated[Serving, Depends(_serving)]
Served = Annotated[Service, Depends(_service)]
Asking = Annotated[Who, Depends(_asking)]
