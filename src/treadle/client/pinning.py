"""A TLS context that trusts one public key and nothing else.

The key is checked inside the handshake, before the library gets a connection that it could send on:
a token never goes to a server with another key.
"""

import hmac
import socket
import ssl

from treadle.wire.fingerprint import fingerprint_of

CONNECT_S_MAX = 10.0


class OtherKeyError(ssl.SSLError):
    """The server has another key than the one that was pinned."""

    def __init__(self, found: str) -> None:
        super().__init__(f"the server has the key {found}")
        self.found = found


class PinnedContext(ssl.SSLContext):
    """Use `pinned`; `fingerprint` is the only key that it takes."""

    fingerprint = ""


def pinned(fingerprint: str) -> PinnedContext:
    made = PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
    made.fingerprint = fingerprint
    made.check_hostname = False  # The key says more than a name does.
    made.verify_mode = ssl.CERT_NONE
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    return made


def key_of_server(host: str, port: int) -> str:
    """The fingerprint of the key that a server shows; nothing is sent to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=CONNECT_S_MAX) as connection,
        context.wrap_socket(connection, server_hostname=host) as secured,
    ):
        return fingerprint_of(secured.getpeercert(binary_form=True) or b"")


def is_certified(host: str, port: int) -> bool:
    """Whether an authority that this machine trusts has signed the server's certificate."""
    # The library's own choice of authorities, so that the client agrees with the answer.
    from httpx2 import create_ssl_context  # noqa: PLC0415

    context = create_ssl_context(trust_env=False)
    try:
        with (
            socket.create_connection((host, port), timeout=CONNECT_S_MAX) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except OSError:  # an SSLError is one; whatever else it is, the client will say
        return False


class _PinnedSocket(ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        _check(self)


PinnedContext.sslsocket_class = _PinnedSocket


def _check(connection: ssl.SSLSocket) -> None:
    assert isinstance(connection.context, PinnedContext)
    found = fingerprint_of(connection.getpeercert(binary_form=True) or b"")
    if not hmac.compare_digest(found, connection.context.fingerprint):
        raise OtherKeyError(found)
