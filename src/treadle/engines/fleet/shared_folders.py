"""Which nodes see the folder in which jobs of a node keep their checkpoints.

Those that see the controller's folder share it; each other node has one of its own. What is in a
folder that other nodes do not see is not brought to them: the job stays where it is.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from treadle.engines.fleet.gang import Gang


class Node(Protocol):
    """What is asked of the client of a node (node_client.py)."""

    shared: bool | None  # whether it sees the controller's folder; None: not known yet


class SharedFolders:
    """Of the nodes that are there."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes

    @property
    def apart(self) -> bool:
        """Whether some node does not see the checkpoints of the others."""
        return any(node.shared is not True for node in self._nodes.values())

    def kept_on(self, gang: Gang) -> tuple[str, ...]:
        """The nodes that see the checkpoints of an attempt; empty: all, or it keeps none."""
        launch = gang.launch
        if launch is None or not launch.keeps_checkpoints or not self.apart:
            return ()
        return self._seeing(gang.nodes[0])

    def divided(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """If these nodes have no folder in common, those of them that one attempt could have."""
        found = self._seeing(nodes[0])
        return () if set(nodes) <= set(found) else found

    def _seeing(self, node: str) -> tuple[str, ...]:
        there = self._nodes.get(node)
        if there is None or not there.shared:
            return (node,)
        return tuple(name for name, each in self._nodes.items() if each.shared)
