"""Nodes that were lost and have not come back: people are told of them, and jobs may wait for them.

A node that joins again is lost no more. One that does not is forgotten after a month, or when more
than `NODES_MAX` others were lost after it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from treadle.core.cluster import Device, Node
from treadle.core.errors import InvalidInputError
from treadle.core.machine import NOT_USED, DeviceView, NodeView
from treadle.core.wording import span

LOST_NODES = "lost_nodes"
NODES_MAX = 64
KEPT_S = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class LostNode:
    node: Node
    since_at: float  # seconds since 1970
    why: str = ""
    noticed: bool = False  # it was lost before then, while no controller was there

    @property
    def is_unused(self) -> bool:
        """Whether it is there, and could not be used when the daemon began."""
        return self.why.startswith(f"it {NOT_USED}")

    def since(self, now_at: float) -> str:
        """In words for people; now_at: seconds since 1970."""
        passed = f"{span(now_at - self.since_at)} ago"
        return f"is lost, which was noticed {passed}" if self.noticed else f"was lost {passed}"

    def view(self) -> NodeView:
        def shown(device: Device) -> DeviceView:
            model = self.node.device_type
            return DeviceView(name=str(device), number=device.number, model=model, state="lost")

        view = NodeView.of(self.node, shown)
        return replace(
            view, health="lost", since_at=self.since_at, because=self.why, noticed=self.noticed
        )


class LostNodes:
    """Those of now, the longest lost first."""

    def __init__(self, known: Iterable[Node] = ()) -> None:
        """known: nodes that may be lost later."""
        self._known = {node.name: node for node in known}
        self._unseen: set[str] = set()  # nodes that were there under an earlier controller
        self._lost: dict[str, LostNode] = {}
        self._forgotten: set[str] = set()  # whose loss is about to be told

    def all(self, now_at: float) -> tuple[LostNode, ...]:
        """now_at: seconds since 1970."""
        return tuple(each for each in self._lost.values() if now_at - each.since_at < KEPT_S)

    def expect(self, nodes: Iterable[Node]) -> None:
        """Nodes of an earlier controller: they join later, or are about to be told as lost."""
        for node in nodes:
            if node.name not in self._lost and node.name not in self._known:
                self._known[node.name] = node
                self._unseen.add(node.name)

    def joined(self, node: Node) -> None:
        self._known[node.name] = node
        self._unseen.discard(node.name)
        self._lost.pop(node.name, None)
        self._forgotten.discard(node.name)

    def forget(self, name: str) -> None:
        """A person says that it does not come back."""
        if self._lost.pop(name, None) is None:
            self._forgotten.add(name)

    def lost(self, name: str, why: str, at: float) -> None:
        """A repeated report changes nothing."""
        node = self._known.pop(name, None)
        if node is None or name in self._forgotten:
            self._forgotten.discard(name)
            return
        self._lost[name] = LostNode(node, at, why, noticed=name in self._unseen)
        while len(self._lost) > NODES_MAX:
            del self._lost[next(iter(self._lost))]

    def text(self) -> str:
        """As the store keeps them."""
        return msgspec.json.encode(list(self._lost.values())).decode()

    def restore(self, text: str) -> None:
        """From the text of `text`; without those that have come back since."""
        try:
            found = msgspec.json.decode(text, type=list[LostNode])
        except msgspec.MsgspecError as error:
            raise InvalidInputError(f"the store's lost nodes cannot be read: {error}") from None
        self._lost = {e.node.name: e for e in found if e.node.name not in self._known}
