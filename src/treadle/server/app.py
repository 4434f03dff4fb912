"""The API as a whole: every route joined with its row of the access table.

Routes are added one by one and not through FastAPI's routers, so that what is checked at build time
is exactly what is served.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.routing import APIRoute
from pydantic import with_config

from treadle.server import history, jobs, machine, people
from treadle.server.access import OPEN, TABLE, Needed, check_access, check_table
from treadle.server.document import tidied
from treadle.server.guard import Guard, who_of
from treadle.server.limits import StreamCount
from treadle.server.metrics import ServerMetrics
from treadle.server.port import Service
from treadle.server.problems import handle_problems
from treadle.server.routes import Route, Serving
from treadle.server.settings import ServerSettings
from treadle.version import __version__
from treadle.wire.jobs import Code, JobChange, JobRequest, Report
from treadle.wire.machine import PolicyChange, TokenRequest

PREFIX = "/api/v1"
ROUTES: tuple[Route, ...] = tuple(
    route for each in (machine, jobs, history, people) for route in each.topic.routes
)
BODIES = (
    JobRequest,
    Code,
    JobChange,
    Report,
    PolicyChange,
    TokenRequest,
    machine.DeviceOrder,
    machine.Shutdown,
)
# A field that the server does not know is refused: to leave it out silently would run another job
# than the one that was asked for.
for _body in BODIES:
    with_config(extra="forbid", allow_inf_nan=False)(_body)

DESCRIPTION = """Submit, watch and steer training jobs on this machine.

Every answer that is not a success is a problem (RFC 9457) with a stable `code`, one sentence in
`detail`, and often a `hint`. Moments that end in `_at` are seconds since 1970."""


def create_app(service: Service, *, settings: ServerSettings | None = None) -> FastAPI:
    """The app for one service; raises if a route and the access table do not agree."""
    check_table((route.method, route.path) for route in ROUTES)
    settings = settings or ServerSettings()
    metrics = ServerMetrics(service)
    app = _App(
        title="Treadle",
        version=__version__,
        description=DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        redirect_slashes=False,
    )
    app.state.serving = Serving(
        service=service,
        settings=settings,
        metrics=metrics,
        streams=StreamCount(most=settings.streams_max, per_user=settings.streams_per_user_max),
    )
    for route in ROUTES:
        _add(app, route, TABLE[route.method, route.path])
    served = {row for each in app.routes for row in _rows(each)}
    assert served == {(route.method, PREFIX + route.path) for route in ROUTES}, served
    handle_problems(app, fields=[each.name for body in BODIES for each in fields(body)])
    app.add_middleware(Guard, service=service, settings=settings, metrics=metrics)
    return app


def _add(app: FastAPI, route: Route, needed: Needed) -> None:
    app.add_api_route(
        PREFIX + route.path,
        route.endpoint,
        methods=[route.method],
        response_model=route.answer,
        status_code=route.status,
        operation_id=route.endpoint.__name__,
        summary=(route.endpoint.__doc__ or "").split("\n")[0].rstrip("."),
        tags=[route.topic],
        dependencies=[Depends(_checked(needed))],
        responses={status: {} for status in _refusals(route, needed)},
    )


def _checked(needed: Needed) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        check_access(needed, who_of(request), job=request.path_params.get("identity", ""))

    return check


def _refusals(route: Route, needed: Needed) -> list[int]:
    found = {400, 403, 422, 429, 500, *route.refusals}
    if needed != OPEN:
        found.add(401)
    if route.method in {"POST", "PUT", "PATCH"}:
        found |= {408, 413, 415}
    return sorted(found)


class _App(FastAPI):
    """FastAPI with our document."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            self.openapi_schema = tidied(super().openapi(), ROUTES, PREFIX)
        return self.openapi_schema


def _rows(route: object) -> Iterator[tuple[str, str]]:
    assert isinstance(route, APIRoute), f"{route} is not one of ours"
    for method in route.methods or ():
        yield method, route.path
