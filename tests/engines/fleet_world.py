"""A fleet in this process: real agents, supervisors and processes, and links that can be cut."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from treadle.engines.agent.agent import Agent
from treadle.engines.agent.agent_errors import ClusterAwayError, LinkLostError
from treadle.engines.agent.node_grant import NodeGrant
from treadle.engines.agent.wire import WireLink
from treadle.engines.fleet.port import Change, Fencing, Joined, Left
from treadle.engines.node import processes
from treadle.engines.node.devices import CpuSlots
from treadle.engines.node.environment import TAG

FENCING = Fencing(failover_s=3.0, margin_s=1.0)
GONE_AFTER_S = FENCING.gone_after_s(FENCING.failover_s)


class InProcessLink(WireLink):
    """Calls an agent of this process, unless it is cut."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.cut = False
        self.awake = asyncio.Event()  # cleared: calls get there, and are not answered
        self.awake.set()
        self.unreachable = False  # the cluster itself cannot be asked
        self.lose_answers_of: set[str] = set()  # verbs: done over there, and not answered, once
        self.refused: set[str] = set()  # verbs that do not get there
        self.garbled: set[str] = set()  # verbs whose next answer is not JSON
        self.calls: Counter[str] = Counter()  # by verb

    async def call(self, verb: str, document: bytes) -> bytes:
        self.calls[verb] += 1
        if self.unreachable:
            await asyncio.sleep(0)
            raise ClusterAwayError("there is no connection to the cluster")
        await self.awake.wait()
        if not self.cut and verb not in self.refused:
            answer = await self.agent.call(verb, document)
            if verb in self.garbled:
                self.garbled.discard(verb)
                return b"\0"
            if verb not in self.lose_answers_of and not self.cut:
                return answer
            self.lose_answers_of.discard(verb)
        await asyncio.sleep(0)
        raise LinkLostError(f"node {self.agent.node.name} cannot be reached")


class SecludedAgent(Agent):
    """Of a node that has no file system in common with the controller."""

    def sees(self, path: str, content: str) -> bool:
        return False

    def has_folder(self, path: str) -> bool:
        """`private` folders are on the controller's machine alone."""
        return "private" not in path


class FleetWorld:
    """The nodes, which outlive controllers."""

    def __init__(
        self,
        root: Path,
        nodes: tuple[str, ...],
        *,
        slots: int = 3,
        fencing: Fencing = FENCING,
        apart: bool = False,
    ) -> None:
        """apart: each node has checkpoint folders of its own."""
        self.root, self.fencing, self.slots = root, fencing, slots
        self.kind = SecludedAgent if apart else Agent
        self.epoch = 0
        self.tell: Callable[[Change], None] = lambda _: None
        self.links = {name: InProcessLink(self._agent(name)) for name in nodes}
        self.away: set[str] = set()
        self.late: set[str] = set()  # members whose agents say nothing
        self.unused: dict[str, str] = {}  # members that are not used, and why
        self._confirming = asyncio.get_running_loop().create_task(self._confirm())

    def _agent(self, name: str) -> Agent:
        agent = self.kind(
            self.root / name,
            name,
            devices=CpuSlots(self.slots),
            address=f"127.0.0.{int(name[1:]) + 1}",
            grant=NodeGrant(self.root / name, self.fencing.failover_s),
        )
        agent.confirm()
        return agent

    def joined(self, name: str) -> Joined:
        agent = self.links[name].agent
        return Joined(agent.node, agent.address, self.links[name], agent.machine)

    async def _confirm(self) -> None:
        """What the cluster does: nodes that are members may go on."""
        while True:
            for name, link in self.links.items():
                if name not in self.away:
                    link.agent.confirm()
            await asyncio.sleep(self.fencing.failover_s / 10)

    def cut(self, name: str) -> None:
        """The node is alone from now on, and the cluster says that it left."""
        self.links[name].cut = True
        self.away.add(name)
        self.tell(Left(name, "it was cut off by the bench"))

    def mend(self, name: str) -> None:
        """The node is a member again, with the same agent and another link."""
        self.away.discard(name)
        agent = self.links[name].agent
        agent.confirm()
        self.links[name] = InProcessLink(agent)
        self.tell(self.joined(name))

    async def replace_agent(self, name: str) -> None:
        """The process of an agent dies, and another one begins over the same root."""
        self.links[name].cut = True
        await self.links[name].agent.close()
        self.links[name] = InProcessLink(self._agent(name))
        self.tell(self.joined(name))

    async def clear_away(self) -> None:
        self._confirming.cancel()
        await asyncio.gather(self._confirming, return_exceptions=True)
        for link in self.links.values():
            await link.agent.close()
        for link in self.links.values():
            while processes.kill_tagged(TAG, f"{link.agent.folders.instance}*"):
                await asyncio.sleep(0.002)


class WorldFleet:
    """What one controller sees of a world (engines.fleet.port.Fleet)."""

    def __init__(self, world: FleetWorld) -> None:
        self.world = world
        self.fencing = world.fencing

    def members(self) -> tuple[Joined, ...]:
        world = self.world
        absent = world.away | world.late
        return tuple(world.joined(name) for name in world.links if name not in absent)

    def coming(self) -> frozenset[str]:
        return frozenset(self.world.late)

    def unused(self) -> dict[str, str]:
        return dict(self.world.unused)

    async def begin(self, tell: Callable[[Change], None]) -> int:
        self.world.tell = tell
        self.world.epoch += 1
        return self.world.epoch

    async def above(self, epoch: int) -> int:
        self.world.epoch = max(self.world.epoch, epoch) + 1
        return self.world.epoch

    async def close(self) -> None:
        self.world.tell = lambda _: None
