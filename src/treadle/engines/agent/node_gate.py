"""Whether the node takes new work: an admin may drain it."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from treadle.core.cluster import Node
from treadle.core.errors import EngineError
from treadle.core.events import NodeDrained, NodeJoined
from treadle.core.machine import NodeOrder
from treadle.files import replace


class NodeGate:
    """Knows if the node is drained, also after a restart: a file says so."""

    def __init__(
        self, root: Path, node: Node, report: Callable[[NodeDrained | NodeJoined], None]
    ) -> None:
        self._path = root / "drained"
        self.node = node
        self._report = report
        self.drained = self._path.exists()

    def begin(self) -> None:
        """Report a drain again: a controller begins with all nodes open."""
        if self.drained:
            self._report(NodeDrained(self.node.name))

    def order(self, order: NodeOrder) -> None:
        node, drain = self.node.name, order is NodeOrder.DRAIN
        try:
            if drain:
                replace(self._path, b"", mode=0o600)
            else:
                with suppress(FileNotFoundError):
                    self._path.unlink()
        except OSError as error:
            raise EngineError(
                f"the order about node {node} cannot be written down: {error.strerror}",
                retryable=True,
            ) from None
        if drain != self.drained:
            self.drained = drain
            self._report(NodeDrained(node) if drain else NodeJoined(self.node, undrained=True))

    def objection(self) -> str:
        """Why the node takes nothing new; empty if it does."""
        return f"node {self.node.name} is drained" if self.drained else ""
