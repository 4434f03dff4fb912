"""A door: one listening socket and the connections that came in by it.

Connections are counted when they are accepted, for each door and each peer, before they cost more
than a descriptor for a moment. A door that is full makes room by closing the oldest connection
that has not shown who it is; if all have, the one that has been idle longest, of the peer and the
user that have most. One whose request has not arrived in full is idle. So silent connections cost
only each other, and a full door never touches another one.

Over TCP all users of a machine are one peer: there a user's connections are counted too, once they
have shown whose they are, and one more than a user may have takes the place of an idle one.
"""

import asyncio
import contextlib
import errno
import json
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from treadle.server.certificate import ServerCertificate
from treadle.server.limits import DoorLimits
from treadle.server.peers import PeerProtocol, network_of, peer_of

ACCEPTS_AT_ONCE = 64  # then other work of the event loop gets its turn
PAUSE_S = 0.5  # after the machine had no descriptor or memory for one more
OUT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
HANDSHAKE_S_MAX = 10.0  # a busy machine takes a second or two
BACKLOG = 512


class Connection:
    """One connection of a door."""

    def __init__(self, door: "Door", peer: str) -> None:
        self.peer = peer
        self.user = ""  # who it showed last
        self.speaker: PeerProtocol | None = None
        self.task: asyncio.Task[object] | None = None  # until it is open, TLS included
        self._door = door

    def admitted(self, user: str) -> bool:
        """It has shown who it is; False if that user has too many, and none to give up."""
        return self._door.admitted(self, user)

    def closed(self) -> None:
        self._door.forget(self)

    def evict(self) -> None:
        """Close it to make room for another."""
        self.closed()
        if self.is_opening and self.task is not None:
            self.task.cancel()
        elif self.speaker is not None:
            self.speaker.abort()

    @property
    def is_opening(self) -> bool:
        return self.task is None or not self.task.done()

    @property
    def idle_since(self) -> float | None:
        """None while it is busy."""
        if self.speaker is None or self.is_opening or self.speaker.busy:
            return None
        return self.speaker.idle_since


class Door:
    """Accepts connections within limits, and hands each to a protocol of its own."""

    def __init__(
        self,
        listener: socket.socket,
        limits: DoorLimits,
        build: Callable[[Connection], asyncio.Protocol],
        certificate: ServerCertificate | None = None,
    ) -> None:
        self._listener = listener
        self._limits = limits
        self._build = build
        self._certificate = certificate
        self._unix = listener.family == socket.AF_UNIX
        self._open: set[Connection] = set()
        self._peers: Counter[str] = Counter()
        self._users: Counter[str] = Counter()
        self._strangers: dict[Connection, None] = {}  # not admitted yet, the oldest first
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False

    def open(self) -> None:
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more; the connections that are open stay."""
        if self._closed:
            return
        self._closed = True
        if self._pause is not None:
            self._pause.cancel()
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        for connection in tuple(self._open):
            if connection.is_opening:
                connection.evict()

    async def wait_closed(self) -> None:
        """uvicorn waits for its connections itself."""

    def __len__(self) -> int:
        return len(self._open)

    def admitted(self, connection: Connection, user: str) -> bool:
        if connection not in self._open or connection.user == user:
            return True
        most = self._limits.per_user
        if most is not None and self._users[user] >= most:
            victim = self._longest_idle(each for each in self._open if each.user == user)
            if victim is None:
                return False
            victim.evict()
        self._strangers.pop(connection, None)
        self._name(connection, user)
        return True

    def _name(self, connection: Connection, user: str) -> None:
        for name, more in ((connection.user, -1), (user, 1)):
            if name:
                self._users[name] += more
            if not self._users[name]:
                del self._users[name]
        connection.user = user

    def forget(self, connection: Connection) -> None:
        if connection in self._open:
            self._open.discard(connection)
            self._strangers.pop(connection, None)
            self._name(connection, "")
            self._peers[connection.peer] -= 1
            if not self._peers[connection.peer]:
                del self._peers[connection.peer]

    # -- accepting

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF:
                    raise
                self._rest()
                return
            self._take(accepted, self._peer(accepted, address))

    def _rest(self) -> None:
        """The listener stays readable, so looking again at once would only use up the CPU."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener.fileno())
        self._pause = loop.call_later(PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        if not self._closed:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    def _peer(self, accepted: socket.socket, address: object) -> str:
        if self._unix:
            peer = peer_of(accepted)
            return "no credentials" if peer is None else f"uid {peer.uid}"
        return network_of(str(address[0]) if isinstance(address, tuple) else "")

    def _take(self, accepted: socket.socket, peer: str) -> None:
        if not self._has_room(peer):
            self._turn_away(accepted)
            return
        connection = Connection(self, peer)
        self._open.add(connection)
        self._strangers[connection] = None
        self._peers[peer] += 1
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._speak(connection, accepted))
        # A task that is cancelled before its first step runs none of its code.
        task.add_done_callback(lambda done: accepted.close() if done.cancelled() else None)
        connection.task = task

    async def _speak(self, connection: Connection, accepted: socket.socket) -> None:
        tls = None if self._certificate is None else self._certificate.context
        handshake_s = None if tls is None else HANDSHAKE_S_MAX
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._build(connection),
                accepted,
                ssl=tls,
                ssl_handshake_timeout=handshake_s,
                ssl_shutdown_timeout=handshake_s,
            )
        except OSError:  # The handshake failed or took too long.
            connection.closed()

    def _turn_away(self, accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError):
            accepted.setblocking(False)
            if self._certificate is None:
                accepted.send(FULL)

    # -- making room

    def _has_room(self, peer: str) -> bool:
        """Whether one more fits, if need be after closing one that is not in use."""
        if self._peers[peer] >= self._limits.per_peer:
            victim = self._worst(each for each in self._open if each.peer == peer)
        elif len(self._open) >= self._limits.most:
            victim = next(iter(self._strangers), None) or self._of_the_largest(peer)
        else:
            return True
        if victim is None:
            return False
        victim.evict()
        return True

    def _worst(self, among: Iterable[Connection]) -> Connection | None:
        """The oldest that has not shown who it is, or the one that has been idle longest."""
        choice = set(among)
        stranger = next((each for each in self._strangers if each in choice), None)
        return stranger or self._longest_idle(choice)

    def _longest_idle(self, among: Iterable[Connection]) -> Connection | None:
        """Of the user who has most."""

        def order(each: Connection) -> tuple[int, float]:
            return -self._users[each.user], each.idle_since or 0.0

        return min(_idle(among), key=order, default=None)

    def _of_the_largest(self, newcomer: str) -> Connection | None:
        peer, number = self._peers.most_common(1)[0]
        if number <= self._peers[newcomer] + 1:
            return None
        return self._worst(each for each in self._open if each.peer == peer)


def _idle(among: Iterable[Connection]) -> Iterator[Connection]:
    return (each for each in among if each.idle_since is not None)


def _full() -> bytes:
    body = json.dumps(
        {
            "type": "about:blank",
            "status": 503,
            "title": "Service Unavailable",
            "code": "unavailable",
            "detail": "the server has as many connections open as it takes",
            "hint": "close connections that are not used, or try again",
        }
    ).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


FULL = _full()
