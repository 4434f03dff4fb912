"""The nodes that there are, and a client for each: they come, leave, and return as another machine.

What the cluster says before the controller has begun concerns the list of nodes alone. What it says
while all nodes are looked at is kept for later, except that a node that left is not waited for, and
that another agent which speaks for the same machine is asked instead. From then on each change is
made at once.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from treadle.core.cluster import Node
from treadle.core.events import Event, NodeJoined, NodeLost
from treadle.engines.agent import messages
from treadle.engines.fleet.node_client import NodeClient
from treadle.engines.fleet.port import Joined, Left
from treadle.engines.fleet.survey import says_at_last

if TYPE_CHECKING:
    from treadle.engines.fleet.engine import FleetEngine

ANOTHER_MACHINE = "another machine has its name, or it was started again"

Change = Joined | Left
logger = logging.getLogger("treadle")


class Membership:
    """Of the cluster of one controller."""

    def __init__(
        self, engine: "FleetEngine", there: Iterable[Joined], tell: Callable[[Event], None]
    ) -> None:
        """there: the nodes when the controller starts."""
        self._engine, self._tell = engine, tell
        self.members: dict[str, Joined] = {each.node.name: each for each in there}
        self.ever = set(self.members)  # names of all nodes that were ever there
        self.coming: set[str] = set()  # names of nodes that may have attempts of an earlier one
        self.clients: dict[str, NodeClient] = {}
        self.changes: list[Change] | None = []  # that are to be made later

    # -- while the controller begins ------------------------------------------------------------

    def begin(self) -> tuple[list[NodeClient], list[Change]]:
        """A client for each node, and the changes that come from now on, until `settle`."""
        early, self.changes = self.changes or [], []
        for change in early:
            self._note_early(change)
        for name, member in self.members.items():
            self.clients[name] = NodeClient(member, self._engine)
        return list(self.clients.values()), self.changes

    def settle(self) -> list[Change]:
        """The changes that came meanwhile; from now on they are made at once."""
        later, self.changes = self.changes or [], None
        return later

    def wait_for(self, client: NodeClient, survey: messages.Survey, why: str) -> None:
        """A member that does not say what it has is taken for away, though that may run on."""
        member = self.members.pop(client.name)
        del self.clients[client.name]
        self.coming.add(client.name)
        logger.warning("node %s is not used before it says what it has", client.name)
        self._tell(NodeLost(client.name, why))

        def awaited() -> bool:
            return client.name in self.coming  # Else it left, or another agent speaks for it.

        async def waiting() -> None:
            if await says_at_last(survey, client, awaited):
                self._join(member)

        self._engine.keep(waiting())

    def _note_early(self, change: Change) -> None:
        """A change between the making of the engine and its beginning."""
        if isinstance(change, Joined):
            known = self.members.get(change.node.name)
            self.members[change.node.name] = change
            self.ever.add(change.node.name)
            if known is None or known.node != change.node:
                self._tell(NodeJoined(change.node))
        elif self.members.pop(change.name, None) is not None:
            self._tell(NodeLost(change.name, change.why))

    # -- changes --------------------------------------------------------------------------------

    def on_change(self, change: Change) -> None:
        if self.changes is not None:
            self._keep_for_later(change, self.changes)
        elif isinstance(change, Joined):
            self._join(change)
        else:
            self._leave(change)

    def _keep_for_later(self, change: Change, changes: list[Change]) -> None:
        changes.append(change)
        name = change.node.name if isinstance(change, Joined) else change.name
        if (client := self.clients.get(name)) is None:
            return
        if isinstance(change, Joined) and change.machine == client.machine:
            client.follow(change)
            return
        if isinstance(change, Joined):
            changes.insert(-1, Left(name, ANOTHER_MACHINE))
        self._engine.keep(client.close())  # Do not wait for what it has.

    def _join(self, joined: Joined) -> None:
        """A node came, or its agent is another one."""
        name = joined.node.name
        known = self.members.get(name)
        if known is not None and known.machine != joined.machine:
            self._leave(Left(name, ANOTHER_MACHINE))
        elif known is not None and known.node != joined.node:
            self._leave(Left(name, "it returned with other devices"))
        known = self.members.get(name)
        self.members[name] = joined
        self.ever.add(name)
        self.coming.discard(name)
        before = self.clients.pop(name, None)
        client = self.clients[name] = NodeClient(joined, self._engine)
        self._engine.lost.joined(client)
        self._engine.keep(self._welcome(client, before, None if known else joined.node))

    async def _welcome(
        self, client: NodeClient, before: NodeClient | None, node: Node | None
    ) -> None:
        """node: its joining is to be told."""
        if before is not None:
            await before.close()
        if self.clients.get(client.name) is not client:
            return
        if node is not None:
            self._tell(NodeJoined(node))
        client.begin()

    def _leave(self, left: Left) -> None:
        if left.name in self.coming:
            self.coming.remove(left.name)
            self._engine.lost.away(left.name)
        if (member := self.members.pop(left.name, None)) is None:
            return
        logger.warning("node %s is lost: %s", left.name, left.why)
        client = self.clients.pop(left.name, None)
        self._engine.forget(left.name)
        self._tell(NodeLost(left.name, left.why))
        self._engine.lost.away(left.name, member.machine)
        for course in list(self._engine.courses.values()):
            self._engine.do(course, course.lose(left.name, member.machine))
        if client is not None:
            client.leave()
            self._engine.keep(client.close())
