"""Routes about the machine, its policy and the server itself."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from treadle.core.machine import NodeView
from treadle.server.answers import answer
from treadle.server.metrics import CONTENT_TYPE
from treadle.server.routes import PREFIX, Asking, Served, Shared, refusals
from treadle.wire.machine import PolicyChange, PolicyView, Status

router = APIRouter(prefix=PREFIX, tags=["machine"])

DeviceName = Annotated[
    str, Path(max_length=200, description="As in an allocation: host:3.", examples=["host:3"])
]


NodeName = Annotated[
    str, Path(max_length=200, description="As `treadle nodes` shows it.", examples=["host"])
]


class NodeVerb(StrEnum):
    DRAIN = "drain"  # start nothing new there; what runs runs on
    UNDRAIN = "undrain"


class Order(StrEnum):
    MANAGE = "manage"
    AVOID = "avoid"


class ShutdownMode(StrEnum):
    LEAVE = "leave"  # jobs keep running
    DRAIN = "drain"  # start no jobs, stop when all have ended
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOrder:
    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrder:
    order: NodeVerb


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    mode: ShutdownMode = ShutdownMode.LEAVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    status: str = "ok"


@router.get("/health", response_model=Health)
async def get_health() -> Response:
    """Check that the server answers; needs no token."""
    return await answer(Health())


@router.get("/status", response_model=Status)
async def get_status(service: Served) -> Response:
    """Show daemon status."""
    return await answer(service.status())


@router.get("/openapi.json", response_model=dict[str, object])
async def get_openapi(request: Request) -> Response:
    """Get this document."""
    return await answer(request.app.openapi())


@router.get("/metrics", response_class=PlainTextResponse)
async def get_metrics(shared: Shared) -> Response:
    """Get metrics in Prometheus' text format."""
    return Response(shared.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


@router.get("/nodes", response_model=tuple[NodeView, ...])
async def list_nodes(service: Served) -> Response:
    """List nodes, their devices and the jobs on them."""
    return await answer(service.nodes())


@router.put("/nodes/{node}/order", response_model=NodeView, responses=refusals(404, 503))
async def order_node(node: NodeName, asked: NodeOrder, service: Served, who: Asking) -> Response:
    """Drain a node, or use it again."""
    return await answer(service.order_node(who, node, asked.order.value))


@router.put("/devices/{device}/order", response_model=NodeView, responses=refusals(404, 503))
async def order_device(
    device: DeviceName, asked: DeviceOrder, service: Served, who: Asking
) -> Response:
    """Manage a device, or avoid it."""
    return await answer(service.manage(who, device, asked.order.value))


@router.post(
    "/devices/{device}/unquarantine", response_model=NodeView, responses=refusals(404, 409, 503)
)
async def unquarantine_device(device: DeviceName, service: Served, who: Asking) -> Response:
    """Take a device out of quarantine."""
    return await answer(service.unquarantine(who, device))


@router.get("/policy", response_model=PolicyView)
async def get_policy(service: Served) -> Response:
    """Show the current policy."""
    return await answer(service.policy())


@router.put("/policy", response_model=PolicyView, responses=refusals(503))
async def set_policy(change: PolicyChange, service: Served, who: Asking) -> Response:
    """Change the policy; running jobs keep running."""
    return await answer(service.set_policy(who, change))


@router.post("/shutdown", response_model=Status, status_code=202)
async def shut_down(asked: Shutdown, service: Served, who: Asking) -> Response:
    """Stop the daemon: leave jobs running, drain, or cancel them."""
    return await answer(service.shut_down(who, asked.mode.value), status=202)
