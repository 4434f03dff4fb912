"""The nodes of a Kubernetes cluster, as a fleet engine wants them (fleet/port.py).

What speaks to the API server has an event loop and a thread of its own (nodes.py): the lease is
renewed however long a decision takes.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from treadle.core.errors import EngineError, InvalidInputError
from treadle.engines.agent.agent_errors import LinkLostError
from treadle.engines.agent.wire import WireLink
from treadle.engines.clusters.kubernetes.api import Api, said
from treadle.engines.clusters.kubernetes.lease import ControllerLease
from treadle.engines.clusters.kubernetes.nodes import Attended, Away, Nodes, TakenOver, Told
from treadle.engines.fleet.port import Change, Fencing, Joined, Left, NewEpoch

T = TypeVar("T")
# Makes the API, the lease, and the nodes with what they tell; on the loop that has them.
Make = Callable[[Callable[[Told], object]], Awaitable[tuple[Api, ControllerLease, Nodes]]]

logger = logging.getLogger("treadle")


class KubernetesLink(WireLink):
    """The way to one agent: through the API server, or straight to its pod from within."""

    def __init__(self, fleet: "KubernetesFleet", node: str, agent: str) -> None:
        self._fleet, self.node, self.agent = fleet, node, agent

    async def call(self, verb: str, document: bytes) -> bytes:
        return await self._fleet.call(self.node, self.agent, verb, document)


class KubernetesFleet:
    """Made when the controller starts; it waits for the agents of the nodes that there are."""

    def __init__(self, make: Make, *, who: str, above: int, fencing: Fencing) -> None:
        """Raises InvalidInputError if the cluster refuses us, or has another controller.

        who: the cluster, for people. above: the epochs that this controller had, in any cluster.
        """
        self.fencing = fencing
        self._make = make
        self._known: list[Told] = []  # before `begin`
        self._hear: Callable[[Told], object] = self._known.append
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kubernetes")
        self._thread.daemon = True
        self._thread.start()
        self._closed = False
        try:
            self._wait(self._open(above))
        except EngineError as error:
            self._end()
            raise said(error, who) from None
        except InvalidInputError:
            self._end()
            raise

    def members(self) -> tuple[Joined, ...]:
        there: dict[str, Attended] = {}
        for told in self._wait(self._taken()):
            if isinstance(told, Attended):
                there[told.node.name] = told
            elif isinstance(told, Away):
                there.pop(told.name, None)
        return tuple(self._joined(there[name]) for name in sorted(there))

    def coming(self) -> frozenset[str]:
        return self._coming

    def unused(self) -> dict[str, str]:
        return self._nodes.unused()

    @property
    def epoch(self) -> int:
        return self._lease.epoch

    @property
    def mark(self) -> str:
        return self._lease.mark

    async def begin(self, tell: Callable[[Change], None]) -> int:
        loop = asyncio.get_running_loop()

        def tell_on(told: Told) -> None:
            if not self._closed:
                loop.call_soon_threadsafe(lambda: tell(self._change(told)))

        async def go_on() -> None:
            for told in await self._taken():
                tell_on(told)
            self._hear = tell_on

        await self._there(go_on())
        return self.epoch

    async def above(self, epoch: int) -> int:
        async def take() -> None:
            await self._lease.give_back()
            await self._lease.take(epoch)

        await self._there(take())
        return self.epoch

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._there(self._leave())
        await asyncio.to_thread(self._end)

    async def call(self, node: str, agent: str, verb: str, document: bytes) -> bytes:
        if self._closed:
            raise LinkLostError(f"node {node} cannot be asked: the controller leaves")
        return await self._there(self._nodes.call(node, agent, verb, document))

    # -- on the other loop ----------------------------------------------------------------------

    async def _open(self, above: int) -> None:
        self._api, self._lease, self._nodes = await self._make(self._heard)
        try:
            await self._lease.take(above)
            await self._nodes.begin()
        except BaseException:
            await self._leave()
            raise
        coming = self._nodes.coming()
        self._nodes.mark_coming(coming)
        self._coming = frozenset(coming)

    async def _taken(self) -> list[Told]:
        """What was told so far. Only this loop adds to it."""
        known = [*self._known]
        self._known.clear()
        return known

    def _heard(self, told: Told) -> None:
        self._hear(told)

    async def _leave(self) -> None:
        await self._nodes.end()
        try:
            await self._lease.give_back()
        except EngineError as error:
            logger.warning("the lease is not given back, and runs out: %s", error)
        await self._api.close()

    def _change(self, told: Told) -> Change:
        match told:
            case Attended():
                return self._joined(told)
            case Away(name, why):
                return Left(name, why)
            case TakenOver(epoch):
                return NewEpoch(epoch)

    def _joined(self, found: Attended) -> Joined:
        link = KubernetesLink(self, found.node.name, found.agent)
        return Joined(found.node, found.address, link, found.machine)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _end(self) -> None:
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
