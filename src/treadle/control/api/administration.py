"""Orders about devices and about the daemon itself, and what helps to find a fault."""

import asyncio
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from treadle.control.api.commands import Commands
from treadle.control.api.context import Context
from treadle.control.api.history import History
from treadle.control.api.node_views import device_called, node_views
from treadle.control.api.queries import Queries
from treadle.control.jobs import LOST_NODES, LostNode
from treadle.control.loop import Resting, on_disk, wall
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.machine import DeviceOrder, NodeOrder, NodeView
from treadle.journal.codec import Noted
from treadle.store.rows import Batch
from treadle.version import __version__
from treadle.wire.machine import Status, Who
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    UnavailableError,
    UnknownNameError,
)

EVENTS_IN_BUNDLE = 2000


class Administration:
    """Devices, shutting down, debugging."""

    def __init__(
        self,
        context: Context,
        commands: Commands,
        queries: Queries,
        history: History,
        stopped: asyncio.Event,
    ) -> None:
        self._context = context
        self._commands = commands
        self._queries = queries
        self._history = history
        self._stopped = stopped

    async def manage(self, who: Who, text: str, order: str) -> NodeView:
        """Use or avoid a device; the node that it belongs to."""
        device = device_called(text, self._context.engine.nodes())
        with _refused_by_silence():
            await self._context.engine.order_device(device, DeviceOrder(order))
        note = Noted("devices", f"{who.user} ordered {order} for device {device}")
        await on_disk(self._context.commit.note(Batch(), note), self._context.condition)
        return next(node for node in self._context.engine.view() if node.name == device.node)

    async def unquarantine(self, who: Who, device: str) -> NodeView:
        return await self.manage(who, device, DeviceOrder.MANAGE)

    async def order_node(self, who: Who, name: str, order: str) -> NodeView:
        """Drain a node or use it again; the node."""
        engine = self._context.engine
        if order == NodeOrder.FORGET:
            return await self._forget(who, name)
        names = [node.name for node in engine.nodes()]
        gone = next((each for each in self._context.lost if each.node.name == name), None)
        if name not in names and gone is not None:
            raise ConflictError(
                f"node {name} {gone.since(wall())}; it takes no orders until it is back"
            )
        if name not in names:
            known = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
            raise UnknownNameError(f"there is no node {name[:80]!r}; expected one of {known}")
        with _refused_by_silence():
            await engine.order_node(name, NodeOrder(order))
        note = Noted("nodes", f"{who.user} ordered {order} for node {name}")
        await on_disk(self._context.commit.note(Batch(), note), self._context.condition)
        return next(node for node in node_views(self._context) if node.name == name)

    async def _forget(self, who: Who, name: str) -> NodeView:
        """Give up a node that has no contact; as it was."""
        context, engine = self._context, self._context.engine
        gone = {each.node.name: each for each in context.lost}
        gone |= {node.name: LostNode(node, wall()) for node in engine.nodes()}
        if name not in gone:
            raise UnknownNameError(f"there is no node {name[:80]!r}, and none of that name is lost")
        try:
            await engine.order_node(name, NodeOrder.FORGET)
        except InvalidInputError as error:
            raise ConflictError(str(error)) from None
        context.lost_nodes.forget(name)
        batch = Batch()
        batch.settings[LOST_NODES] = context.lost_nodes.text()
        note = Noted("nodes", f"{who.user} said that node {name} is off: nothing runs there")
        await on_disk(context.commit.note(batch, note), context.condition)
        return gone[name].view()

    async def shut_down(self, who: Who, mode: str) -> Status:
        context = self._context
        if mode == "cancel":
            context.condition.draining = True
            await self._commands.cancel_all(who)
        elif mode == "drain":
            context.condition.draining = True
            resting = Resting(context.scheduler.policy)
            context.scheduler.set_policy(resting, context.clock.now())
        elif mode == "leave":
            self._stopped.set()
        else:
            raise InvalidRequestError(f"mode is {mode[:40]!r}; expected leave, drain or cancel")
        return self._queries.status()

    async def debug(self) -> Mapping[str, str]:
        """What helps to find a fault. None of it is secret."""
        events = (await self._history.events_last(limit=EVENTS_IN_BUNDLE)).events
        lines = [f"{event.id} {event.at:.3f} {event.kind} {event.text}" for event in events]
        return {
            "version.txt": f"treadle {__version__}\npython {sys.version}\n{platform.platform()}\n",
            "status.txt": f"{self._queries.status()}\n{self._queries.policy()}\n",
            "nodes.txt": "".join(f"{node}\n" for node in self._queries.nodes()),
            "events.txt": "\n".join(lines) + "\n",
            "snapshot.json": _indented(await self._queries.snapshot()),
        }


@contextmanager
def _refused_by_silence() -> Iterator[None]:
    try:
        yield
    except EngineError as error:
        raise UnavailableError(str(error)) from None


def _indented(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
