"""Talks to a Treadle server from Python: `Client`."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.client.address import default_socket
    from treadle.client.client import Client
    from treadle.client.errors import NoAnswerError, UnreachableError, UntrustedError

__all__ = [
    "Client",
    "NoAnswerError",
    "UnreachableError",
    "UntrustedError",
    "default_socket",
]

_HOMES = {
    "Client": "treadle.client.client",
    "NoAnswerError": "treadle.client.errors",
    "UnreachableError": "treadle.client.errors",
    "UntrustedError": "treadle.client.errors",
    "default_socket": "treadle.client.address",
}


def __getattr__(name: str) -> object:
    """Load a name when it is first used: the command line needs few of them at a time."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'treadle.client' has no attribute {name!r}")
