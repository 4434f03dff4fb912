"""The user at the other end of a Unix socket, from the kernel.

The protocol puts the peer's credentials into the state of every request that comes in by a Unix
socket. A request without them came over TCP, or from a socket the kernel would not vouch for:
either way it must bring a token.
"""

import asyncio
import ipaddress
import math
import socket
import struct
from typing import NamedTuple, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_HEAD_S_MAX = 20.0
SO_PEERGROUPS = 59  # of Linux; the socket module has no name for it
GROUPS_BYTES_MAX = 1024  # the most that `getsockopt` of Python reads: 256 groups


class Peer(NamedTuple):
    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...] = ()  # supplementary ones, as they were when it connected


def peer_of(connection: socket.socket) -> Peer | None:
    """The credentials of the connected process; None if the kernel has none."""
    layout = struct.Struct("3i")
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, layout.size)
        pid, uid, gid = layout.unpack(raw)
    except (OSError, struct.error):
        return None
    # The kernel gives -1 for a socket that has no peer.
    return Peer(pid, uid, gid, _groups_of(connection)) if uid >= 0 else None


def _groups_of(connection: socket.socket) -> tuple[int, ...]:
    """Empty if the kernel does not say: then the peer is in its own group only."""
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, GROUPS_BYTES_MAX)
        return struct.unpack(f"{len(raw) // 4}I", raw)
    except (OSError, struct.error):
        return ()


def network_of(host: str) -> str:
    """What counts as one peer over TCP: an IPv4 address, or the 64 bits that an IPv6 host is
    given."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


class Entry(Protocol):
    """What the door knows of a connection (door.py)."""

    def admitted(self, user: str) -> bool: ...
    def closed(self) -> None: ...


class PeerProtocol(H11Protocol):
    """uvicorn's protocol with peer credentials and a time limit on a request's head.

    uvicorn waits forever for the rest of a request's head. A client that opens connections and
    sends a byte now and then would keep them. Until a connection has shown who it is, it may be
    silent for a few seconds only.
    """

    entry: Entry | None = None
    stranger_s_max = REQUEST_HEAD_S_MAX
    idle_since = 0.0
    _timer: asyncio.TimerHandle | None = None
    _known = False

    @property
    def busy(self) -> bool:
        """Whether a request is being answered; one that has not arrived in full is not."""
        if self.conn.their_state is h11.SEND_BODY:
            return False
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        unix = connection is not None and connection.family == socket.AF_UNIX
        peer = peer_of(connection) if unix else None
        self.app_state = {
            **self.app_state,
            "unix": unix,
            "peer": peer,
            "address": self.client[0] if self.client else "",
            "network": self._network(peer),
            "abort": transport.abort,
            "admitted": self._admitted,
        }
        self.idle_since = self.loop.time()
        self.timeout_keep_alive = math.ceil(self.stranger_s_max)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch()
        if self.entry is not None:
            self.entry.closed()

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        super().on_response_complete()

    def abort(self) -> None:
        self.transport.abort()

    def _network(self, peer: Peer | None) -> str:
        """What limits count as one peer."""
        if peer is not None:
            return f"uid {peer.uid}"
        return network_of(self.client[0] if self.client else "")

    def _admitted(self, user: str) -> bool:
        """It has shown whose it is; False if that user has too many."""
        if self.entry is not None and not self.entry.admitted(user):
            return False
        if not self._known:
            self._known = True
            self.timeout_keep_alive = self.config.timeout_keep_alive
        return True

    def _watch(self) -> None:
        """Run the timer while a request's head is awaited, and only then."""
        waits = self.conn.their_state is h11.IDLE
        if not waits:
            self._unwatch()
        elif self._timer is None:
            within_s = REQUEST_HEAD_S_MAX if self._known else self.stranger_s_max
            self._timer = self.loop.call_later(within_s, self._give_up)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
