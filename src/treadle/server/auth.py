"""Who sends a request: the token's user, else the peer that the kernel names on a Unix socket.

An unknown token is refused even on the Unix socket: falling back to the peer could act as a user
that the caller did not mean.
"""

import os
from collections.abc import Mapping

from treadle.server.peers import Peer
from treadle.server.port import Service
from treadle.wire.machine import Who
from treadle.wire.problems import NotAllowedError, NotKnownError

TOKEN_LENGTH_MAX = 200


def identify(
    service: Service, headers: Mapping[bytes, bytes], state: Mapping[str, object]
) -> Who | None:
    """The caller; None without a token or peer. Raises if the token is not valid."""
    given = headers.get(b"authorization")
    if given is not None:
        address = "socket" if state.get("unix") else str(state.get("address") or "")
        return _by_token(service, given, address)
    peer = state.get("peer")
    return service.who_of_uid(peer.uid) if isinstance(peer, Peer) else None


def check_group(group: int | None, state: Mapping[str, object]) -> None:
    """Refuse a peer of the Unix socket outside the group that the socket is for.

    The socket's mode keeps them out too, as long as it is not changed behind our back.
    """
    if group is None or not state.get("unix"):
        return
    peer = state.get("peer")
    if isinstance(peer, Peer) and (
        peer.uid in (0, os.geteuid()) or group in (peer.gid, *peer.groups)
    ):
        return
    raise NotAllowedError("this socket is only for members of the group that it is shared with")


def _by_token(service: Service, given: bytes, address: str) -> Who:
    scheme, _, token = given.partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        raise NotKnownError(
            "the Authorization header should be 'Bearer treadle_...'",
            hint="send the token as `treadle token` printed it",
        )
    who = None
    # A token is printable; anything else cannot be one, and need not be looked up.
    if len(token) <= TOKEN_LENGTH_MAX and token.isascii() and token.decode("ascii").isprintable():
        who = service.who_of_token(token.decode("ascii"), address)
    if who is None:
        raise NotKnownError(
            "the token is unknown, expired or revoked",
            hint="`treadle token` creates a new one on the server's machine",
        )
    return who
