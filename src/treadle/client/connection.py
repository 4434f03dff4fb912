"""The HTTP library, kept in one file because loading it takes 115 ms.

The clients import this when a call is really sent.
"""

import ipaddress
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx2

from treadle.client.address import Address
from treadle.client.calls import Call
from treadle.client.errors import LostError, NoAnswerError, UntrustedError
from treadle.client.exchange import unreachable
from treadle.client.pinning import OtherKeyError, pinned


def open_client(address: Address, token: str | None, *, timeout_s: float) -> httpx2.Client:
    check_way(address, token)
    # Proxies of the environment must not see tokens for this machine: hence `trust_env`.
    return httpx2.Client(
        transport=httpx2.HTTPTransport(
            uds=address.socket or None, trust_env=False, verify=_verify(address)
        ),
        base_url=address.base_url,
        headers={"Authorization": f"Bearer {token}"} if token else {},
        timeout=timeout_s,
        trust_env=False,
    )


def check_way(address: Address, token: str | None) -> None:
    """Refuse to send a token where others on the network can read it."""
    if token and address.url.startswith("http:") and not is_loopback(address.url):
        raise UntrustedError(
            f"a token sent to {address.url} could be read on the way; use https:// "
            "(`treadle login` pins a server's key), or a tunnel to a loopback port"
        )


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _verify(address: Address) -> ssl.SSLContext | bool:
    """How the server's certificate is checked."""
    if address.fingerprint:
        return pinned(address.fingerprint)
    # Certificates take 50 ms to load, and a socket of this machine shows none.
    return address.base_url.startswith("https:")


@contextmanager
def plain_errors(address: Address, call: Call) -> Iterator[None]:
    """The library's errors as ours, in a sentence that names the address."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise _untrusted(address, error) or unreachable(address, error) from None
    except httpx2.TimeoutException as error:
        raise NoAnswerError(_sentence(address, call, error)) from None
    except httpx2.TransportError as error:
        raise LostError(_sentence(address, call, error)) from None
    except httpx2.HTTPError as error:
        raise NoAnswerError(_sentence(address, call, error)) from None


def _untrusted(address: Address, error: BaseException) -> UntrustedError | None:
    """The error for a server that is there and shows the wrong certificate."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OtherKeyError):
            return UntrustedError(
                f"the server at {address} has another key than before ({cause.found}; expected "
                f"{address.fingerprint}), so nothing was sent to it; if its owner says that the "
                f"key was changed, run `treadle login {address.url}` again"
            )
        if isinstance(cause, ssl.SSLCertVerificationError):
            return UntrustedError(
                f"the certificate of {address} is not one that this machine trusts "
                f"({cause.verify_message}); `treadle login {address.url}` shows its key and pins it"
            )
        cause = cause.__cause__ or cause.__context__
    return None


def _sentence(address: Address, call: Call, error: BaseException) -> str:
    reason = str(error) or type(error).__name__
    return (
        f"the server at {address} did not answer {call.method} {call.path} ({reason});"
        " `treadle status` shows whether it runs"
    )
