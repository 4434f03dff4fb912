"""The nodes that there are, and a client for each: they come, leave, and return as another machine.

What the cluster says before the controller has begun concerns the list of nodes alone. What it says
while all nodes are looked at is kept for later, except that a node that left is not waited for, and
that another agent which speaks for the same machine is asked instead. From then on each change is
made at once.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from treadle.core.cluster import Node
from treadle.core.errors import InvalidInputError
from treadle.core.events import Event, NodeJoined, NodeLost
from treadle.engines.agent import messages
from treadle.engines.fleet.machines import NoLink
from treadle.engines.fleet.node_client import NodeClient
from treadle.engines.fleet.port import Joined, Left
from treadle.engines.fleet.survey import says_at_last

if TYPE_CHECKING:
    from treadle.engines.fleet.engine import FleetEngine

NOT_THERE = "it has had no contact since before the controller began"
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
        self.away: dict[str, str] = {}  # members that left, with jobs that may go on, and why
        self.changes: list[Change] | None = []  # that are to be made later

    # -- while the controller begins ------------------------------------------------------------

    def begin(self) -> tuple[list[NodeClient], list[Change]]:
        """A client for each node, and the changes that come from now on, until `settle`."""
        early, self.changes = self.changes or [], []
        for change in early:
            self._note_early(change)
        for name, member in self.members.items():
            self.clients[name] = NodeClient(member, self._engine)
        there = [client for name, client in self.clients.items() if name not in self.missing()]
        return there, self.changes

    def missing(self) -> set[str]:
        """Nodes of the controller before that are away since then."""
        return {name for name, each in self.members.items() if isinstance(each.link, NoLink)}

    def miss(self, coming: Collection[str]) -> None:
        """They are away, with the jobs that may go on there. coming: that may say so soon."""
        for name in self.missing():
            if name in coming:  # It is a member, and no clock runs.
                self.coming.add(name)
                self._part(name, NOT_THERE)
            else:
                self._leave(Left(name, NOT_THERE))

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
        """A node came or is back, or its agent is another one."""
        name = joined.node.name
        known = self.members.get(name)
        if known is not None and known.machine != joined.machine:
            if name not in self.away:
                self._engine.lost.away(name, known.machine)
            self.lose(name, ANOTHER_MACHINE)
        elif known is not None and known.node != joined.node:
            self.lose(name, "it returned with other devices")
        self.away.pop(name, None)
        known = self.members.get(name)
        self.members[name] = joined
        self.ever.add(name)
        self.coming.discard(name)
        before = self.clients.pop(name, None)
        client = self.clients[name] = NodeClient(joined, self._engine)
        self._engine.lost.joined(joined)
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
            self._engine.silent.joined(client.name)
        client.begin()

    def _leave(self, left: Left) -> None:
        """The cluster has no contact; what runs there goes on until its grant has run out."""
        name = left.name
        if name in self.coming:
            self.coming.remove(name)
            self._engine.lost.away(name)
        if (member := self.members.get(name)) is None:
            return
        self._engine.lost.away(name, member.machine)
        self._part(name, left.why)

    def _part(self, name: str, why: str) -> None:
        if not self._engine.has_parts_on(name):
            self.lose(name, why)
            return
        logger.warning("node %s left, and its jobs may go on there: %s", name, why)
        self.away[name] = self.clients[name].away = why
        self._engine.silent.close(name)

    def forget(self, name: str) -> None:
        """A person says that nothing runs there. Raises InvalidInputError if it has contact."""
        if name in self.coming or (name in self.members and name not in self.away):
            raise InvalidInputError(
                f"node {name} has contact with its cluster: treadle nodes drain {name} keeps new "
                "jobs off it"
            )
        self._engine.lost.forget(name)

    def lose(self, name: str, why: str = "") -> None:
        """It is not waited for; what of its jobs is over says lost_parts.py."""
        because = why or self.away.get(name, "")
        self.away.pop(name, None)
        member = self.members.pop(name)
        logger.warning("node %s is lost: %s", name, because)
        client = self.clients.pop(name, None)
        self._engine.forget(name)
        self._tell(NodeLost(name, because))
        for course in list(self._engine.courses.values()):
            self._engine.do(course, course.lose(name, member.machine))
        if client is not None:
            client.leave()
            self._engine.keep(client.close())
