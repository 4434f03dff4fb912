"""What all routes share: their rows, the access check, the service, and who asks."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from pydantic import ConfigDict, with_config
from starlette.responses import JSONResponse, Response

from treadle.control.api import LiveService
from treadle.core.job_report import Report
from treadle.server.access import TABLE, Load, Needed, Row, check_access
from treadle.server.auth import Callers
from treadle.server.guard import who_of
from treadle.server.hub import Hub
from treadle.server.limits import StreamCount
from treadle.server.metrics import ServerMetrics
from treadle.server.settings import ServerSettings
from treadle.wire.job_orders import JobSelection, JobsOrder
from treadle.wire.jobs import Code, JobChange, JobRequest
from treadle.wire.machine import (
    DeviceOrderRequest,
    NodeOrderRequest,
    PolicyChange,
    Shutdown,
    TokenRequest,
    Who,
)
from treadle.wire.retention import PruneRequest
from treadle.wire.sessions import SessionRequest
from treadle.wire.what_if import WhatIfRequest

PREFIX = "/api/v1"
Handler = TypeVar("Handler", bound=Callable[..., Any])


BODIES: Mapping[type, Mapping[str, object]] = {  # with an example of each
    JobRequest: {
        "command": ["python", "train.py", "--epochs", "3"],
        "name": "resnet",
        "devices": "1..4",
        "resumable": True,
        "workdir": "/home/ada/resnet",
    },
    Code: {},
    JobChange: {"priority": 10},
    JobsOrder: {"verb": "cancel", "ids": ["12", "13_4", "sweep"]},
    PruneRequest: {"older_than_s": 2592000, "dry_run": True},
    JobSelection: {"user": "ada", "states": ["PENDING"]},
    Report: {"step": 1200, "total": 5000, "loss": 0.31, "checkpoint": 1000},
    PolicyChange: {"policy": "afs"},
    TokenRequest: {"name": "laptop", "role": "user", "days": 30},
    NodeOrderRequest: {"order": "drain"},
    DeviceOrderRequest: {"order": "avoid"},
    Shutdown: {"mode": "drain"},
    SessionRequest: {"token": "treadle_..."},
    WhatIfRequest: {"policy": "fifo", "cluster": "2x8"},
}
# Before any route reads them. A field that the server does not know is refused: leaving it out
# silently would run another job than the one that was submitted.
for _body, _example in BODIES.items():
    _extra: dict[str, Any] = {"examples": [_example]} if _example else {}
    with_config(ConfigDict(extra="forbid", allow_inf_nan=False, json_schema_extra=_extra))(_body)


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


class _Route(APIRoute):
    """Refuses a request that the access table does not allow, before anything of it is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, method = super().get_route_handler(), min(self.methods or ())
        needed = TABLE[method, self.path.removeprefix(PREFIX)].needed

        async def checked(request: Request) -> Response:
            check_access(needed, who_of(request), job=request.path_params.get("identity", ""))
            return await handle(request)

        return checked


class Topic:
    """The routes of one topic: a row for each, above the function that answers it."""

    def __init__(self, name: str) -> None:
        self.router = APIRouter(
            prefix=PREFIX,
            tags=[name],
            route_class=_Route,
            generate_unique_id_function=lambda route: route.name,
        )

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
