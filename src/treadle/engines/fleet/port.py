"""What a fleet engine needs of a cluster: its nodes, links to agents, and the controller's lease.

A cluster (here.py, Ray, or a test bench) implements `Fleet` and `Link`. What crosses a link is a
verb and a document (agent/messages.py), on a wire as JSON: nothing is pickled.

Rules
1. The cluster says which nodes are members. A link that fails is only a link that fails: the call
   is made again until it is answered or the cluster says that the node left.
2. The cluster has `Agent.confirm` called every few seconds while the node is a member, and not once
   more after it has told `Left` and before it tells `Joined`: the node's jobs end when the grant
   that the last confirmation has renewed runs out (agent/grants.py).
3. The cluster gives the epoch. Each controller that takes charge has a higher one, and agents
   refuse the orders of older ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from treadle.core.cluster import Node
from treadle.engines.agent import grants
from treadle.engines.context import FAILOVER_S

Answer = TypeVar("Answer")


class Link(Protocol):
    """The way to the agent of one node (agent.wire.WireLink, if that is in another process)."""

    bytes_max: int | None  # of one message, and of one launch; None: any

    async def ask(self, verb: str, document: object, kind: type[Answer]) -> Answer:
        """`Agent.ask` over there. Raises what it raises, and LinkLostError if no answer comes."""
        ...


class Joined(NamedTuple):
    """A node is a member. If it was one before: its agent is another one from now on."""

    node: Node  # as its agent says it (`Agent.node`), with the rack that the cluster knows
    address: str  # of the node, as the other nodes reach it
    link: Link
    # Its agent's (`Agent.machine`): another one if the name is on another machine; empty if it is
    # this machine's for ever.
    machine: str


class Left(NamedTuple):
    """A node is no member any more; its agent is not confirmed before it joins again."""

    name: str
    why: str  # in one sentence


class NewEpoch(NamedTuple):
    """The controller had lost the lease and has it again: another one was in charge meanwhile."""

    number: int


Change = Joined | Left | NewEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Fencing:
    """How long the ranks of a node that is cut off may run on."""

    failover_s: float = FAILOVER_S
    margin_s: float = grants.MARGIN_S  # of the controller, until it believes that they are gone

    def gone_after_s(self, failover_s: float) -> float:
        """After `Left`: nothing of a node with that time runs any more."""
        return grants.gone_after_s(failover_s, self.margin_s)


class Fleet(Protocol):
    """The nodes of a cluster, known from when it is made: `treadle up` needs them at once."""

    fencing: Fencing

    def members(self) -> tuple[Joined, ...]:
        """The nodes at the start; called once, before `begin`."""
        ...

    def coming(self) -> frozenset[str]:
        """Names of nodes that are members, and of whose agents nothing was heard yet.

        What an earlier controller started there may run on: they are `Joined`, or they have `Left`.
        """
        ...

    def unused(self) -> Mapping[str, str]:
        """Members that are not used, by name, and why: half a sentence, empty for none."""
        ...

    async def begin(self, tell: Callable[[Change], None]) -> int:
        """Tell what has changed since `members`, and from now on whatever changes; the epoch.

        Raises InvalidInputError if another controller has the lease. It renews the lease until
        `close`. `tell` returns at once and must be called on the event loop that called this.
        """
        ...

    async def above(self, epoch: int) -> int:
        """Another epoch, above this one: nodes know of it, and the cluster has forgotten it.

        Raises InvalidInputError if another controller has the lease.
        """
        ...

    async def close(self) -> None:
        """Give the lease back; agents stay."""
        ...
