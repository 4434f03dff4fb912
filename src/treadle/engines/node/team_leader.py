"""The members on other nodes, for the supervisor that coordinates all of them.

Each of those nodes has a supervisor (team_member.py), which calls this one, starts and reaps its
members by its orders, and passes on what is said to them and by them. Here each of them is a socket
like that of a member on this node, and a `Rank` whose process is elsewhere.

Part of the supervisor: it imports the standard library and the core's protocol alone.
"""

import select
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from treadle.core.live_plans import Leader
from treadle.core.member_messages import LINE_BYTES_MAX, Member
from treadle.engines.node.meeting import bound
from treadle.engines.node.peer_link import PeerLink, key_of
from treadle.engines.node.ranks import KILLED

BACKLOG = 64
GREETING_MAX = 64  # connections that have not shown who they are
OWED_S = 0.05  # until it is tried again to send what a connection did not take
LAST_TRIES = 20  # to send what the others are told in the end


class RemoteRank:
    """A member on another node."""

    number = -1  # that node numbers its ranks itself
    pid = 0

    def __init__(self, member: Member, node: str, leader: "TeamLeader") -> None:
        self.member, self.node = member, node
        self.code: int | None = None
        self._leader = leader
        self.log = self

    @property
    def name(self) -> str:
        return f"a rank on node {self.node}"

    def write(self, note: bytes) -> None:
        """Into its log."""
        self._leader.say(self.node, {"note": self.member, "text": note.decode()})

    def dismiss(self, *, at_once: bool) -> None:
        self._leader.say(self.node, {"dismiss": self.member, "at_once": at_once})


class TeamLeader:
    """Connections to the supervisors on other nodes, and what is passed on."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        """It has a port from now on, and listens on it once another node is to take part."""
        address, team = order["address"], (order["part"] or {}).get("team")
        self.node = order["node"]
        self._listener = bound(address, team["port"] if team else 0)
        self._listener.setblocking(False)
        self._key, self._term = key_of(order), team["term"] if team else order["action"]
        self.word = Leader(self.node, self._listener.getsockname()[1], self._term).word
        self._listens = False
        self._greeting: list[PeerLink] = []
        self._links: dict[str, PeerLink] = {}
        self.met: set[str] = set()  # nodes that have ever called
        self._lines: dict[Member, socket.socket] = {}
        self._buffers: dict[Member, bytes] = {}
        self.ranks: dict[Member, RemoteRank] = {}
        self._ended: list[RemoteRank] = []
        self.meeting = ""  # where members find each other
        # The newest order that each node has, by the word of its supervisor.
        self.ready: dict[str, int] = {}

    # -- what is to be done there ---------------------------------------------------------------

    def listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._listener.listen(BACKLOG)

    def expect(self, member: Member, node: str) -> socket.socket:
        """A member that its node starts by itself: this end of its line."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        self._take_line(member, node, theirs)
        return ours

    def start(
        self, member: Member, place: str, line: socket.socket, about: Mapping[str, Any]
    ) -> None:
        """Have a member started on another node. line: the end that its process would have."""
        node, _, number = place.partition("/")
        rank = self._take_line(member, node, line)
        if not self.say(node, {"launch": member, "device": int(number), **about}):
            self._is_over(rank, KILLED)

    def say(self, node: str, message: Mapping[str, Any]) -> bool:
        link = self._links.get(node)
        if link is None or link.closed:
            return False
        link.say(message)
        return True

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those that take part."""
        return tuple(self._links)

    def release(self, node: str, *, succeeded: bool) -> None:
        """Nothing is wanted of it any more: it ends."""
        self.say(node, {"release": succeeded})
        self.ready.pop(node, None)

    @property
    def alive(self) -> bool:
        return any(rank.code is None for rank in self.ranks.values())

    # -- for the loop ---------------------------------------------------------------------------

    def descriptors(self) -> list[int]:
        found = [self._listener.fileno()] if self._listens else []
        links = (*self._greeting, *self._links.values())
        found += [link.fileno() for link in links if not link.closed]
        return found + [line.fileno() for line in self._lines.values()]

    def due(self, now: float) -> float | None:
        """When to look though nothing came."""
        owes = any(link.owes for link in self._links.values())
        return now if self._ended else now + OWED_S if owes else None

    def look(self) -> None:
        """Pass on all that there is."""
        self._accept()
        for link in list(self._greeting):
            said = link.look()
            if link.about is not None and not link.closed:
                self._welcome(link)
                self._hear(link.about["node"], said)
            elif link.closed:
                self._greeting.remove(link)
        for node, link in list(self._links.items()):
            self._hear(node, link.look())
            if link.closed:
                self._lose(node)
        for member in list(self._lines):
            self._pass_on(member)

    def ended(self) -> list[RemoteRank]:
        """Those that have ended since the last call; what they said before has been passed on."""
        found, self._ended = self._ended, []
        return found

    def close(self, *, succeeded: bool) -> None:
        for node in self.nodes:
            self.release(node, succeeded=succeeded)
        for link in self._links.values():
            for _ in range(LAST_TRIES):
                if link.owes:
                    select.select([], [link], [], OWED_S)
                    link.look()
            link.close()
        for link in self._greeting:
            link.close()
        for line in (self._listener, *self._lines.values()):
            line.close()

    # -- inside ---------------------------------------------------------------------------------

    def _accept(self) -> None:
        while self._listens:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            self._greeting.append(PeerLink(line, self._key))
            if len(self._greeting) > GREETING_MAX:
                self._greeting.pop(0).close()

    def _welcome(self, link: PeerLink) -> None:
        self._greeting.remove(link)
        assert link.about is not None
        node = link.about["node"]
        if link.about["term"] != self._term or node in self._links:
            link.close()
            return
        self._links[node] = link
        self.met.add(node)
        link.say({"meeting": self.meeting})

    def _hear(self, node: str, messages: Iterable[Mapping[str, Any]]) -> None:
        for message in messages:
            match message:
                case {"has": int(action)}:
                    self.ready[node] = action
                case {"from": member, "line": str(line)} if member in self._lines:
                    with suppress(OSError):
                        self._lines[member].send(f"{line}\n".encode())
                case {"ended": member, "code": int(code)} if member in self.ranks:
                    self._is_over(self.ranks[member], code)
                case _:
                    pass

    def _lose(self, node: str) -> None:
        del self._links[node]
        self.ready.pop(node, None)
        for rank in self.ranks.values():
            if rank.node == node:
                self._is_over(rank, KILLED)

    def _is_over(self, rank: RemoteRank, code: int) -> None:
        if rank.code is None:
            rank.code = code
            self._close_line(rank.member)
            self._ended.append(rank)

    def _take_line(self, member: Member, node: str, line: socket.socket) -> RemoteRank:
        line.setblocking(False)
        self._lines[member], self._buffers[member] = line, b""
        rank = self.ranks[member] = RemoteRank(member, node, self)
        return rank

    def _pass_on(self, member: Member) -> None:
        """What its coordinator says to a member."""
        try:
            data = self._lines[member].recv(LINE_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        node = self.ranks[member].node
        *lines, self._buffers[member] = (self._buffers[member] + data).split(b"\n")
        for line in lines:
            self.say(node, {"to": member, "line": line.decode()})
        if not data:
            self.say(node, {"hang-up": member})
            self._close_line(member)

    def _close_line(self, member: Member) -> None:
        if (line := self._lines.pop(member, None)) is not None:
            line.close()
