"""Whether an address is one of this machine."""

import socket
from functools import lru_cache


@lru_cache(4096)
def is_own(address: str) -> bool:
    """Only a machine's own addresses can be bound there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((address, 0))
    except OSError:
        return False
    return True
