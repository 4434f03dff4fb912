"""Whether the node takes new work: an admin may drain it, and so may its cluster."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from treadle.core.cluster import Node
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.events import NodeDrained, NodeJoined
from treadle.core.machine import NodeOrder
from treadle.files import replace


class NodeGate:
    """Knows if the node is drained. What an admin ordered outlives a restart: a file says so."""

    def __init__(
        self, root: Path, node: Node, report: Callable[[NodeDrained | NodeJoined], None]
    ) -> None:
        self._path = root / "drained"
        self.node = node
        self._report = report
        self._ordered = self._path.exists()
        self._held = ""  # why its cluster wants nothing new there

    @property
    def drained(self) -> bool:
        return self._ordered or bool(self._held)

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
        before, self._ordered = self.drained, drain
        self._told(before)
        if self._held and not drain:
            raise InvalidInputError(self.objection())

    def hold(self, why: str) -> None:
        """Its cluster wants nothing new there, and why; empty: it does."""
        before, self._held = self.drained, why
        self._told(before)

    def _told(self, before: bool) -> None:
        if self.drained != before:
            name = self.node.name
            self._report(
                NodeDrained(name) if self.drained else NodeJoined(self.node, undrained=True)
            )

    def objection(self) -> str:
        """Why the node takes nothing new; empty if it does."""
        why = f": {self._held}" if self._held else ""
        return f"node {self.node.name} is drained{why}" if self.drained else ""
