"""Devices on nodes, nodes in a cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import NamedTuple, Self

from treadle.core.errors import InvalidInputError

CPU = "cpu"  # the type of a node whose devices are CPU slots; any other is a type of accelerator

# No machine has more, and a bit mask of this width is still one machine word's work.
DEVICES_PER_NODE_MAX = 1024


class Device(NamedTuple):
    """One GPU, or one CPU slot on a node without GPUs.

    A tuple and not a dataclass: devices are dictionary keys in the innermost loops, and a tuple's
    hash is computed in C (0.07 against 0.27 microseconds).
    """

    node: str
    number: int

    def __str__(self) -> str:
        return f"{self.node}:{self.number}"


@dataclass(frozen=True, slots=True)
class Node:
    """One machine: so many devices of one type, and the host that feeds them."""

    name: str
    device_count: int
    device_type: str = "gpu"
    cores: int = 0  # 0 means unknown
    memory_gib: float = 0.0  # 0 means unknown
    rack: str = ""
    device_memory_gib: float = 0.0  # of each device; 0 means unknown

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInputError("a node needs a name")
        if not 0 < self.device_count <= DEVICES_PER_NODE_MAX:
            raise InvalidInputError(
                f"node {self.name} has {self.device_count} devices; "
                f"expected 1 to {DEVICES_PER_NODE_MAX}"
            )

    @property
    def has_slots(self) -> bool:
        """Whether its devices are CPU slots."""
        return self.device_type == CPU


# Words for types of device, how many devices are needed, nodes, GiB of memory of each device.
Asked = tuple[tuple[str, ...], int, tuple[str, ...], float]


@dataclass(frozen=True)
class Cluster:
    """The nodes that may be used now, in the order in which placements look at them."""

    # Without slots, so that what is asked at every decision can be remembered.

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        names = {node.name for node in self.nodes}
        if len(names) != len(self.nodes):
            twice = next(
                n.name for n in self.nodes if [m.name for m in self.nodes].count(n.name) > 1
            )
            raise InvalidInputError(f"node {twice} is listed twice; every node needs its own name")

    @classmethod
    def grid(cls, node_count: int, devices_each: int) -> Self:
        """Equal nodes n0, n1, ... in one rack."""
        return cls(tuple(Node(f"n{number}", devices_each) for number in range(node_count)))

    @cached_property
    def device_count(self) -> int:
        return sum(node.device_count for node in self.nodes)

    @cached_property
    def largest_node(self) -> int:
        """The most devices that one node offers."""
        return max((node.device_count for node in self.nodes), default=0)

    @cached_property
    def device_memory_least_gib(self) -> float:
        """Of the devices whose memory is known; infinite if none is."""
        known = (node.device_memory_gib for node in self.nodes if node.device_memory_gib)
        return min(known, default=inf)

    @cached_property
    def names(self) -> frozenset[str]:
        """Of all nodes."""
        return frozenset(node.name for node in self.nodes)

    @cached_property
    def by_type(self) -> Mapping[str, frozenset[str]]:
        """The names of the nodes of each type of device, in the order of the nodes."""
        found: dict[str, list[str]] = {}
        for node in self.nodes:
            found.setdefault(node.device_type, []).append(node.name)
        return {kind: frozenset(names) for kind, names in found.items()}

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The devices of each node, by name."""
        return {node.name: node.device_count for node in self.nodes}

    @cached_property
    def _parts(self) -> dict[frozenset[str], Self]:
        return {self.names: self}

    @cached_property
    def suited(self) -> dict[Asked, tuple[frozenset[str], ...]]:
        """What device_types.py has worked out of it."""
        return {}

    @cached_property
    def alike(self) -> Self:
        """The same nodes for those that are not to tell CPU slots from other devices."""
        return type(self)(tuple(replace(node, device_type="gpu") for node in self.nodes))

    def part(self, names: frozenset[str]) -> Self:
        """These of its nodes as a cluster, the same object each time: policies remember by it."""
        known = self._parts.get(names)
        if known is None:
            known = self._parts[names] = self.without(self.names - names)
        return known

    def rack_of(self) -> dict[str, str]:
        """The rack of each node, by name."""
        return {node.name: node.rack for node in self.nodes}

    def with_node(self, node: Node) -> Self:
        return type(self)((*self.nodes, node))

    def without(self, names: Iterable[str]) -> Self:
        gone = frozenset(names)
        return type(self)(tuple(node for node in self.nodes if node.name not in gone))
