"""The API as a whole: the routers of all topics, behind the guard and the access table."""

from dataclasses import fields
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from treadle.control.api import LiveService
from treadle.server import history_routes as history
from treadle.server import job_routes as jobs
from treadle.server import machine_routes as machine
from treadle.server import people_routes as people
from treadle.server import stream_routes as streams
from treadle.server import view_routes as views
from treadle.server.access import TABLE
from treadle.server.auth import Callers
from treadle.server.document import tidied
from treadle.server.guard import Guard
from treadle.server.hub import Hub
from treadle.server.limits import StreamCount
from treadle.server.metrics import ServerMetrics
from treadle.server.page_files import page_files, page_routes
from treadle.server.problems import handle_problems
from treadle.server.routes import BODIES, PREFIX, Serving
from treadle.server.settings import ServerSettings
from treadle.version import __version__

ROUTERS = (
    machine.route.router,
    jobs.route.router,
    history.route.router,
    views.route.router,
    people.route.router,
    streams.route.router,
)

DESCRIPTION = """Submit, watch and steer training jobs on this machine.

Every error is a problem (RFC 9457) with a stable `code`, one sentence in `detail`, and often a
`hint`. Moments that end in `_at` are seconds since 1970."""


def create_app(service: LiveService, *, settings: ServerSettings | None = None) -> FastAPI:
    """The app for one service."""
    assert set(offered()) == TABLE.keys(), "a route was not made by its Topic"
    settings = settings or ServerSettings()
    metrics = ServerMetrics(service)
    callers = Callers(service, settings)
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
    assert not app.routes, "FastAPI adds routes that the access table does not know"
    app.state.serving = Serving(
        service=service,
        callers=callers,
        settings=settings,
        metrics=metrics,
        streams=StreamCount(most=settings.streams_max, per_user=settings.streams_per_user_max),
        hub=Hub(service, settings.clock),
    )
    # Not `include_router`: that makes every request look through the routers again.
    app.router.routes += [route for router in ROUTERS for route in router.routes]
    app.router.routes += page_routes(page_files())
    handle_problems(app, fields=[each.name for body in BODIES for each in fields(body)])
    app.add_middleware(Guard, callers=callers, settings=settings, metrics=metrics)
    return app


def offered() -> list[tuple[str, str]]:
    """Method and path of every route."""
    found = []
    for route in (route for router in ROUTERS for route in router.routes):
        assert isinstance(route, APIRoute), f"{route} has no row in the access table"
        found += [(method, route.path.removeprefix(PREFIX)) for method in route.methods or ()]
    return found


class _App(FastAPI):
    """FastAPI with our document."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            self.openapi_schema = tidied(super().openapi())
        return self.openapi_schema
