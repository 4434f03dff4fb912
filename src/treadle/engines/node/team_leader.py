"""The members on other nodes, for the supervisor that coordinates all of them.

Each of those nodes has a supervisor (team_member.py), which calls this one, starts and reaps its
members by its orders, and passes on what is said to them and by them. Here each of them is a socket
like that of a member on this node, and a `Rank` whose process is elsewhere.

A connection that is closed proves nothing: that node calls again, and nothing that was said is
lost. It is lost if the newest order does not name it any more.

Part of the supervisor: it imports the standard library and the core's protocol alone.
"""

import select
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from treadle.core.live_plans import Leader
from treadle.core.member_facts import TakeOver
from treadle.core.member_messages import LINE_BYTES_MAX, Member, Ready, encode
from treadle.engines.node.meeting import bound
from treadle.engines.node.peer_link import PeerLink, Talk, key_of
from treadle.engines.node.ranks import KILLED

BACKLOG = 64
GREETING_MAX = 64  # connections that have not shown who they are
OWED_S = 0.05  # until it is tried again to send what a connection did not take
READY = encode(Ready()).decode().strip()
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


class Reported(NamedTuple):
    """A member that had another coordinator before."""

    place: str
    line: socket.socket
    said: list[str]  # of itself, to that one


class TeamLeader:
    """Connections to the supervisors on other nodes, and what is passed on."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        """It has a port from now on, and listens on it once another node is to take part."""
        address, team = order["address"], (order["part"] or {}).get("team")
        self.node = order["node"]
        self._listener = bound(address, team["port"] if team else 0)
        self._listener.setblocking(False)
        self._key, self._term = key_of(order), team["term"] if team else order["action"]
        port = self._listener.getsockname()[1]
        self.word = Leader(self.node, port, self._term).word
        # As others are told of it (core.launch.Team).
        self.team = {"term": self._term, "leader": self.node, "address": address, "port": port}
        self.team |= {"node": self.node, "devices": team["devices"] if team else ()}
        self._listens = False
        self._greeting: list[PeerLink] = []
        self._talks: dict[str, tuple[str, Talk]] = {}  # with the lives of those supervisors
        self.needed: set[str] | None = None  # nodes of the newest order; None: all
        self.met: set[str] = set()  # nodes that have ever called
        self.reported: dict[Member, Reported] = {}
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
        if node not in self._talks:
            return False
        self._talks[node][1].say(message)
        return True

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those that take part."""
        return tuple(self._talks)

    def release(self, node: str, *, succeeded: bool) -> None:
        """Nothing is wanted of it any more: it ends."""
        self.say(node, {"release": succeeded})
        self.ready.pop(node, None)

    @property
    def alive(self) -> bool:
        return any(rank.code is None for rank in self.ranks.values())

    def take_over(
        self, places: Sequence[str], term: int, plan: str
    ) -> tuple[TakeOver, dict[Member, socket.socket], dict[Member, list[str]]]:
        """The members that nodes have told of, their lines, and what they said of themselves.

        They had another coordinator before, with an earlier term.
        """
        found, self.reported = self.reported, {}
        order = {place: number for number, place in enumerate(places)}
        ready = [name for name, each in found.items() if any(READY in word for word in each.said)]
        group = sorted(ready, key=lambda name: order.get(found[name].place, len(order)))
        there = {name: (each.place,) for name, each in found.items()}
        given = TakeOver(there, tuple(group), term, plan)
        lines = {name: each.line for name, each in found.items()}
        return given, lines, {name: each.said for name, each in found.items()}

    # -- for the loop ---------------------------------------------------------------------------

    def descriptors(self) -> list[int]:
        found = [self._listener.fileno()] if self._listens else []
        found += [link.fileno() for link in self._greeting if not link.closed]
        found += [talk.fileno() for _, talk in self._talks.values() if not talk.closed]
        return found + [self._lines[member].fileno() for member in self._readable()]

    def due(self, now: float) -> float | None:
        """When to look though nothing came."""
        owes = any(talk.owes for _, talk in self._talks.values())
        return now if self._ended else now + OWED_S if owes else None

    def look(self) -> None:
        """Pass on all that there is."""
        self._accept()
        for link in list(self._greeting):
            said = link.look()
            if link.about is not None and not link.closed:
                self._welcome(link, said)
            elif link.closed:
                self._greeting.remove(link)
        for node, (_, talk) in list(self._talks.items()):
            self._hear(node, talk.look())
            if talk.closed and self.needed is not None and node not in self.needed:
                self._lose(node)
        for member in self._readable():
            self._pass_on(member)

    def ended(self) -> list[RemoteRank]:
        """Those that have ended since the last call; what they said before has been passed on."""
        found, self._ended = self._ended, []
        return found

    def close(self, *, succeeded: bool) -> None:
        for node in self.nodes:
            self.release(node, succeeded=succeeded)
        for _, talk in self._talks.values():
            for _ in range(LAST_TRIES):
                if talk.unheard:
                    select.select([talk], [talk] if talk.owes else [], [], OWED_S)
                    talk.look()
            talk.close()
        for link in self._greeting:
            link.close()
        lines = [*self._lines.values(), *(each.line for each in self.reported.values())]
        for line in (self._listener, *lines):
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

    def _welcome(self, link: PeerLink, said: Iterable[Mapping[str, Any]]) -> None:
        self._greeting.remove(link)
        assert link.about is not None
        node, life = link.about["node"], link.about["life"]
        if link.about["term"] != self._term:
            link.close()
            return
        if node in self._talks and self._talks[node][0] != life:
            self._lose(node)  # The supervisor that was there before has ended.
        if node not in self._talks:
            self._talks[node] = life, Talk()
            self.met.add(node)
            self.say(node, {"meeting": self.meeting})
        self._hear(node, self._talks[node][1].connect(link, said))

    def _hear(self, node: str, messages: Iterable[Mapping[str, Any]]) -> None:
        for message in messages:
            match message:
                case {"has": int(action)}:
                    self.ready[node] = action
                case {"member": str(member), "device": int(device), "said": list(said)}:
                    place = f"{node}/{device}"
                    self.reported[member] = Reported(place, self.expect(member, node), said)
                case {"from": member, "line": str(line)} if member in self._lines:
                    with suppress(OSError):
                        self._lines[member].send(f"{line}\n".encode())
                case {"ended": member, "code": int(code)} if member in self.ranks:
                    self._is_over(self.ranks[member], code)
                case _:
                    pass

    def _lose(self, node: str) -> None:
        self._talks.pop(node)[1].close()
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

    def _readable(self) -> list[Member]:
        full = {node for node, (_, talk) in self._talks.items() if talk.full}
        return [member for member in self._lines if self.ranks[member].node not in full]

    def _close_line(self, member: Member) -> None:
        if (line := self._lines.pop(member, None)) is not None:
            line.close()
