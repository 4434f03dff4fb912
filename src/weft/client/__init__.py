"""Talks to a Weft server from Python: `Client`, and `AsyncClient` with the same methods."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.client.address import default_socket
    from weft.client.asynchronous import AsyncClient
    from weft.client.client import Client
    from weft.client.errors import NoAnswerError, UnreachableError, UntrustedError

__all__ = [
    "AsyncClient",
    "Client",
    "NoAnswerError",
    "UnreachableError",
    "UntrustedError",
    "default_socket",
]

_HOMES = {
    "AsyncClient": "weft.client.asynchronous",
    "Client": "weft.client.client",
    "NoAnswerError": "weft.client.errors",
    "UnreachableError": "weft.client.errors",
    "UntrustedError": "weft.client.errors",
    "default_socket": "weft.client.address",
}


def __getattr__(name: str) -> object:
    """Load a name when it is first used: the command line needs few of them at a time."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'weft.client' has no attribute {name!r}")
