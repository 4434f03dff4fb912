"""Who asks: a token if the request brings one, else whom the kernel names on a Unix socket.

A token that is not known is refused even where the peer would have been: whoever sends one means
to be somebody in particular.
"""

from collections.abc import Mapping

from treadle.server.peers import Peer
from treadle.server.port import Service
from treadle.wire.machine import Who
from treadle.wire.problems import NotKnownError

TOKEN_LENGTH_MAX = 200


def identify(
    service: Service, headers: Mapping[bytes, bytes], state: Mapping[str, object]
) -> Who | None:
    """Whoever asks, None if they do not say; raise if what they say is not true."""
    given = headers.get(b"authorization")
    if given is not None:
        return _by_token(service, given)
    peer = state.get("peer")
    return service.who_of_uid(peer.uid) if isinstance(peer, Peer) else None


def _by_token(service: Service, given: bytes) -> Who:
    scheme, _, token = given.partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        raise NotKnownError(
            "the header Authorization is not of the form 'Bearer treadle_...'",
            hint="send the token as `treadle token` showed it",
        )
    who = None
    # A token is printable; anything else cannot be one, and need not be looked up.
    if len(token) <= TOKEN_LENGTH_MAX and token.isascii() and token.decode("ascii").isprintable():
        who = service.who_of_token(token.decode("ascii"))
    if who is None:
        raise NotKnownError(
            "the token is not known, has expired or was revoked",
            hint="`treadle token` makes a new one on the server's machine",
        )
    return who
