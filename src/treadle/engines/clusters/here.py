"""The engine `local`: a fleet of one node, whose agent is in the daemon's own process.

The daemon's lock on its state folder says all that a cluster would: there is one controller, and
its machine is there. So the agent has no grant. What runs goes on when the daemon is killed, and
the next one takes it over.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from treadle.core.ports import Engine
from treadle.engines.agent.agent import Agent
from treadle.engines.agent.device_choice import devices_of, excluded_by
from treadle.engines.context import EngineContext
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.fleet.port import Change, Fencing, Joined
from treadle.engines.node.devices import DeviceSource

Answer = TypeVar("Answer")


class HereLink:
    """Hands what is asked to an agent of this process as it is."""

    bytes_max: int | None = None

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def ask(self, verb: str, document: object, kind: type[Answer]) -> Answer:  # noqa: ARG002
        answer: Any = await self._agent.ask(verb, document)
        return answer  # type: ignore[no-any-return]


class HereFleet:
    """This machine (fleet.port.Fleet)."""

    fencing = Fencing()  # It is never lost.

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def members(self) -> tuple[Joined, ...]:
        return (Joined(self.agent.node, self.agent.address, HereLink(self.agent), machine=""),)

    def coming(self) -> frozenset[str]:
        return frozenset()

    def unused(self) -> Mapping[str, str]:
        return {}

    async def begin(self, tell: Callable[[Change], None]) -> int:  # noqa: ARG002
        return self.agent.epoch + 1

    async def above(self, epoch: int) -> int:
        return epoch + 1

    async def close(self) -> None:
        await self.agent.close()


def here(
    context: EngineContext,
    *,
    devices: DeviceSource,
    node_name: str,
    excluded: Collection[int] = (),
) -> FleetEngine:
    """The engine with these devices of this machine."""
    agent = Agent(
        context.root, node_name, devices=devices, excluded=excluded, options=context.options
    )
    return FleetEngine(context, HereFleet(agent))


def local_engine(context: EngineContext) -> Engine:
    """The engine as the options of `treadle up` describe it."""
    devices = devices_of(context.options)
    excluded = excluded_by(context.options, devices)
    return here(context, devices=devices, node_name=context.options.node_name, excluded=excluded)
