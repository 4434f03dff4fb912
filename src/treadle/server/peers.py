"""The user at the other end of a Unix socket, from the kernel.

The protocol puts the peer's credentials into the state of every request that comes in by a Unix
socket. A request without them came over TCP, or from a socket the kernel would not vouch for:
either way it must bring a token.
"""

import asyncio
import socket
import struct
from typing import NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_HEAD_S_MAX = 20.0


class Peer(NamedTuple):
    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer | None:
    """The credentials of the connected process; None if the kernel has none."""
    layout = struct.Struct("3i")
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, layout.size)
        pid, uid, gid = layout.unpack(raw)
    except (OSError, struct.error):
        return None
    # The kernel gives -1 for a socket that has no peer.
    return Peer(pid, uid, gid) if uid >= 0 else None


class PeerProtocol(H11Protocol):
    """uvicorn's protocol with peer credentials and a time limit on a request's head.

    uvicorn waits forever for the rest of a request's head. A client that opens connections and
    sends a byte now and then would use up the server's file descriptors.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        unix = connection is not None and connection.family == socket.AF_UNIX
        self.app_state = {
            **self.app_state,
            "unix": unix,
            "peer": peer_of(connection) if unix else None,
            "abort": transport.abort,
        }
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch()

    def _watch(self) -> None:
        """Run the timer while a request's head is awaited, and only then."""
        waits = self.conn.their_state is h11.IDLE
        if not waits:
            self._unwatch()
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST_HEAD_S_MAX, self._give_up)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
