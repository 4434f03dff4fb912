"""Which machines have the names of nodes, written down for the next controller.

A name may go to another machine while a node is cut off. What that machine says of an attempt
proves something only if the attempt was there (lost_parts.py), and a controller that takes over
knows the nodes of attempts by name alone. So the names are written down with their machines, before
a machine is used. A controller that finds nothing, because it has another folder or another one was
in charge in between, knows of no machine, and waits until the grants have run out.

It also has what the nodes are: one that is away when a controller takes over is kept with its jobs.

The file also has how long jobs on each node may go on without contact (grants.py). It is written
before agents are given a longer time, and after they said that they have a shorter one.
"""

import logging
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from treadle.core.cluster import Node
from treadle.engines.agent import grants
from treadle.engines.agent.agent_errors import LinkLostError
from treadle.engines.agent.wire import WireLink
from treadle.engines.fleet.port import Joined
from treadle.files import replace

logger = logging.getLogger("treadle")


class Known(msgspec.Struct, frozen=True):
    """A node that was a member, and was not given up."""

    node: Node
    address: str


class NoLink(WireLink):
    """To a node that is away since before the controller began."""

    async def call(self, verb: str, document: bytes) -> bytes:  # noqa: ARG002
        raise LinkLostError("the node is away")


class Kept(msgspec.Struct, frozen=True):
    """The file."""

    epoch: int  # of the controller that wrote it
    machines: dict[str, tuple[str, ...]]  # by node: on which parts of attempts may be
    failover_s: dict[str, float | None] = {}  # by node; None: for ever
    nodes: dict[str, Known] = {}


class Machines:
    """Of one controller."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epoch = 0
        self._of: dict[str, tuple[str, ...]] = {}
        kept = self._read()
        self._nodes = {} if kept is None else dict(kept.nodes)
        self._before = {} if kept is None else kept.machines
        known = {} if kept is None else kept.failover_s
        self._failover_s = {node: grants.limit(each) for node, each in known.items()}

    def expect(self, failover_s: float) -> None:
        """Agents are about to be given this time, if it is longer than what they have."""
        if (kept := self._read()) is not None:
            self._epoch, self._of = kept.epoch, kept.machines
            known = self._failover_s.items()
            self._failover_s = {node: max(each, failover_s) for node, each in known}
            self._write()

    def away(self, members: Collection[str]) -> list[Joined]:
        """Nodes that the controller before had, and that are no members now."""
        found = []
        for name, known in self._nodes.items():
            machines = self._before.get(name, ())
            if name not in members and len(machines) == 1 and all(machines):
                found.append(Joined(known.node, known.address, NoLink(), machines[0]))
        return found

    def left(self, node: str) -> None:
        """It was given up."""
        if self._nodes.pop(node, None) is not None:
            self._write()

    def failover_s(self, node: str, own: float) -> float:
        """How long its jobs may go on after the last renewal. own: of this controller."""
        return grants.longest_s(own, self._failover_s.get(node))

    def runs_under(self, node: str, failover_s: float) -> None:
        """Its agent says so, and what it says is the longest of all that runs there."""
        if self._failover_s.get(node) != failover_s:
            self._failover_s[node] = failover_s
            self._write()

    def take_over(self, epoch: int) -> None:
        """Go on with what the controller before knew."""
        if (kept := self._read()) is not None and kept.epoch == epoch - 1:
            self._of = kept.machines
        self._epoch = epoch
        self._write()

    def go_on(self, epoch: int) -> None:
        """The same controller has another epoch: what it knows is as true as before."""
        self._epoch = epoch
        self._write()

    def known(self) -> dict[str, str]:
        """The machine of each node, if only one has had its name."""
        return {node: machines[0] for node, machines in self._of.items() if len(machines) == 1}

    def settle(self, members: Collection[Joined], lost: Collection[str]) -> None:
        """lost: nodes that have parts which were lost."""
        if not any(each.machine for each in members) and not self._of:
            return  # They cannot be others.
        kept = {node: machines for node, machines in self._of.items() if node in lost}
        for name, machine in ((each.node.name, each.machine) for each in members):
            kept[name] = _with(kept.get(name, () if name not in lost else ("",)), machine)
        self._of = kept
        self._nodes = {each.node.name: Known(each.node, each.address) for each in members}
        self._write()

    def joined(self, member: Joined, *, beside: bool) -> None:
        """beside: parts that were lost may be on machines that had the name before."""
        name = member.node.name
        now = _with(self._of.get(name, ("",)) if beside else (), member.machine)
        known = Known(member.node, member.address)
        if (now, known) != (self._of.get(name), self._nodes.get(name)):
            self._of[name], self._nodes[name] = now, known
            self._write()

    def _read(self) -> Kept | None:
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._path.read_bytes(), type=Kept)
        return None

    def _write(self) -> None:
        failover_s = {node: grants.finite(each) for node, each in self._failover_s.items()}
        document = msgspec.json.encode(Kept(self._epoch, self._of, failover_s, self._nodes))
        try:
            replace(self._path, document, mode=0o600)
        except OSError:
            logger.exception("which machines the nodes are cannot be written down")
            with suppress(OSError):  # What is not true any more is worse than nothing.
                self._path.unlink()


def _with(machines: tuple[str, ...], machine: str) -> tuple[str, ...]:
    return (*(each for each in machines if each != machine), machine)
