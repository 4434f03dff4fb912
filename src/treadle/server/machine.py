"""Routes about the machine, its policy and the server itself."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from treadle.core.machine import NodeView
from treadle.server.answers import answer
from treadle.server.metrics import CONTENT_TYPE
from treadle.server.routes import Asking, Served, Shared, Topic
from treadle.wire.machine import PolicyChange, PolicyView, Status

topic = Topic("machine")

DeviceName = Annotated[
    str, Path(max_length=200, description="As in an allocation: host:3.", examples=["host:3"])
]


class Order(StrEnum):
    MANAGE = "manage"
    AVOID = "avoid"


class ShutdownMode(StrEnum):
    LEAVE = "leave"  # jobs run on
    DRAIN = "drain"  # start nothing, end when all have ended
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOrder:
    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    mode: ShutdownMode = ShutdownMode.LEAVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    status: str = "ok"


@topic.route("GET", "/health", answer=Health)
async def get_health() -> Response:
    """Say that the server answers, to anybody."""
    return answer(Health())


@topic.route("GET", "/status", answer=Status)
async def get_status(service: Served) -> Response:
    """The server and its queue in a few numbers."""
    return answer(service.status())


@topic.route("GET", "/openapi.json", answer=dict[str, object])
async def get_openapi(request: Request) -> Response:
    """This document."""
    return answer(request.app.openapi())


@topic.route("GET", "/metrics", media_type="text/plain")
async def get_metrics(shared: Shared) -> Response:
    """Figures in Prometheus' text format."""
    return Response(shared.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


@topic.route("GET", "/nodes", answer=tuple[NodeView, ...])
async def list_nodes(service: Served) -> Response:
    """The machine's devices and who is on them."""
    return answer(service.nodes())


@topic.route("PUT", "/devices/{device}/order", answer=NodeView, refusals=(404, 503))
async def order_device(
    device: DeviceName, asked: DeviceOrder, service: Served, who: Asking
) -> Response:
    """Have Treadle manage a device, or keep off it."""
    return answer(await service.manage(who, device, asked.order.value))


@topic.route("POST", "/devices/{device}/unquarantine", answer=NodeView, refusals=(404, 409, 503))
async def unquarantine_device(device: DeviceName, service: Served, who: Asking) -> Response:
    """Use a device again that was found unclean."""
    return answer(await service.unquarantine(who, device))


@topic.route("GET", "/policy", answer=PolicyView)
async def get_policy(service: Served) -> Response:
    """The policy that decides now."""
    return answer(service.policy())


@topic.route("PUT", "/policy", answer=PolicyView, refusals=(503,))
async def set_policy(change: PolicyChange, service: Served, who: Asking) -> Response:
    """Switch the policy; running jobs run on."""
    return answer(await service.set_policy(who, change))


@topic.route("POST", "/shutdown", answer=Status, status=202)
async def shut_down(asked: Shutdown, service: Served, who: Asking) -> Response:
    """End the server: leave jobs running, drain, or cancel them."""
    return answer(await service.shut_down(who, asked.mode.value), status=202)
