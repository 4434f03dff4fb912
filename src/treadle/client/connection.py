"""The HTTP library, kept in one file because loading it takes 115 ms.

The clients import this when a call is really sent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from treadle.client.address import Address
from treadle.client.calls import Call
from treadle.client.errors import LostError, NoAnswerError
from treadle.client.exchange import unreachable

EVENT_BYTES_MAX = 16 * 2**20
# The server breaks its silence every 15 s.
SILENCE_S_MAX = 45.0


def open_client(address: Address, token: str | None, *, timeout_s: float) -> httpx2.Client:
    # Certificates take 50 ms to load, and a socket of this machine shows none.
    secure = address.base_url.startswith("https:")
    transport = httpx2.HTTPTransport(uds=address.socket or None, trust_env=False, verify=secure)
    # Proxies of the environment must not see tokens for this machine: hence `trust_env`.
    return httpx2.Client(
        base_url=address.base_url,
        transport=transport,
        headers=_headers(token),
        timeout=timeout_s,
        trust_env=False,
    )


def open_async_client(
    address: Address, token: str | None, *, timeout_s: float
) -> httpx2.AsyncClient:
    secure = address.base_url.startswith("https:")
    transport = httpx2.AsyncHTTPTransport(
        uds=address.socket or None, trust_env=False, verify=secure
    )
    return httpx2.AsyncClient(
        base_url=address.base_url,
        transport=transport,
        headers=_headers(token),
        timeout=timeout_s,
        trust_env=False,
    )


def stream_timeout(timeout_s: float) -> httpx2.Timeout:
    return httpx2.Timeout(timeout_s, read=SILENCE_S_MAX)


def events_of(response: httpx2.Response) -> httpx2.EventSource:
    return httpx2.EventSource(response, max_event_size=EVENT_BYTES_MAX)


@contextmanager
def plain_errors(address: Address, call: Call[Any]) -> Iterator[None]:
    """The library's errors as ours, in a sentence that names the address."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise unreachable(address, error) from None
    except (httpx2.TimeoutException, httpx2.SSEError) as error:
        raise NoAnswerError(_sentence(address, call, error)) from None
    except httpx2.TransportError as error:
        raise LostError(_sentence(address, call, error)) from None
    except httpx2.HTTPError as error:
        raise NoAnswerError(_sentence(address, call, error)) from None


def _headers(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _sentence(address: Address, call: Call[Any], error: BaseException) -> str:
    reason = str(error) or type(error).__name__
    return (
        f"the server at {address} did not answer {call.method} {call.path} ({reason});"
        " `treadle status` shows whether it runs"
    )
