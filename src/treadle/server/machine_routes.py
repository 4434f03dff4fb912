"""Routes about the machine, its policy and the server itself."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from treadle.core.machine import NodeView
from treadle.server.access import OPEN, Load
from treadle.server.answers import answer
from treadle.server.metrics import CONTENT_TYPE
from treadle.server.routes import Asking, Served, Shared, Topic
from treadle.wire.lab import ConfigChange, ConfigView
from treadle.wire.machine import (
    DeviceOrderRequest,
    NodeOrderRequest,
    PolicyChange,
    PolicyView,
    Role,
    Shutdown,
    Status,
)

route = Topic("machine")

DeviceName = Annotated[
    str, Path(max_length=200, description="As in an allocation: host:3.", examples=["host:3"])
]


NodeName = Annotated[
    str, Path(max_length=200, description="As `treadle nodes` shows it.", examples=["host"])
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    status: str = "ok"


@route("GET", "/health", OPEN, Health, load=Load.NONE)
async def get_health() -> Response:
    """Check that the server answers; needs no token."""
    return await answer(Health())


@route("GET", "/status", Role.VIEWER, Status, load=Load.NONE)
async def get_status(service: Served) -> Response:
    """Show daemon status."""
    return await answer(service.status())


@route("GET", "/openapi.json", Role.VIEWER, dict[str, object], load=Load.NONE)
async def get_openapi(request: Request) -> Response:
    """Get this document."""
    return await answer(request.app.openapi())


@route("GET", "/metrics", Role.VIEWER, response_class=PlainTextResponse, load=Load.NONE)
async def get_metrics(shared: Shared) -> Response:
    """Get metrics in Prometheus' text format."""
    return Response(shared.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


@route("GET", "/nodes", Role.VIEWER, tuple[NodeView, ...], load=Load.NONE)
async def list_nodes(service: Served) -> Response:
    """List nodes, their devices and the jobs on them."""
    return await answer(service.nodes())


@route("PUT", "/nodes/{node}/order", Role.ADMIN, NodeView, 404, 409, 503)
async def order_node(
    node: NodeName, asked: NodeOrderRequest, service: Served, who: Asking
) -> Response:
    """Drain a node, use it again, or forget one that has no contact."""
    return await answer(service.order_node(who, node, asked.order))


@route("PUT", "/devices/{device}/order", Role.ADMIN, NodeView, 404, 503)
async def order_device(
    device: DeviceName, asked: DeviceOrderRequest, service: Served, who: Asking
) -> Response:
    """Manage a device, or avoid it."""
    return await answer(service.manage(who, device, asked.order))


@route("POST", "/devices/{device}/unquarantine", Role.ADMIN, NodeView, 404, 409, 503)
async def unquarantine_device(device: DeviceName, service: Served, who: Asking) -> Response:
    """Take a device out of quarantine."""
    return await answer(service.unquarantine(who, device))


@route("GET", "/policy", Role.VIEWER, PolicyView, load=Load.NONE)
async def get_policy(service: Served) -> Response:
    """Show the current policy."""
    return await answer(service.policy())


@route("PUT", "/policy", Role.ADMIN, PolicyView, 503)
async def set_policy(change: PolicyChange, service: Served, who: Asking) -> Response:
    """Change the policy; running jobs keep running."""
    return await answer(service.set_policy(who, change))


@route("GET", "/config", Role.ADMIN, ConfigView, load=Load.NONE)
async def get_config(service: Served) -> Response:
    """Show the configuration that is in force; it may have passwords of mail and chat."""
    return await answer(service.config())


@route("PUT", "/config", Role.ADMIN, ConfigView, 409, 503)
async def set_config(change: ConfigChange, service: Served, who: Asking) -> Response:
    """Put another configuration in force, whole or not at all."""
    return await answer(service.configure(who, change))


@route("POST", "/shutdown", Role.ADMIN, Status, status=202)
async def shut_down(asked: Shutdown, service: Served, who: Asking) -> Response:
    """Stop the daemon: leave jobs running, drain, or cancel them."""
    return await answer(service.shut_down(who, asked.mode.value), status=202)
