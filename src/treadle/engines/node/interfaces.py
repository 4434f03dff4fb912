"""Which network interface of this machine has an address."""

import fcntl
import ipaddress
import socket
import struct
from contextlib import closing, suppress
from pathlib import Path

GET_ADDRESS = 0x8915  # the kernel's SIOCGIFADDR: the first IPv4 address of an interface
NAME_BYTES = 16
LOOPBACK = "lo"


def interface_of(address: str) -> str:
    """The name of the interface; empty if none is known to have that address."""
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if wanted.is_loopback:  # It has a whole network of addresses.
        return LOOPBACK
    return _with_ipv6(wanted) if wanted.version == 6 else _with_ipv4(address)


def _with_ipv4(address: str) -> str:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asker:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # It has none.
                request = struct.pack(f"{NAME_BYTES}s24x", name.encode()[: NAME_BYTES - 1])
                found = fcntl.ioctl(asker, GET_ADDRESS, request)
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return ""


def _with_ipv6(wanted: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    with suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            number, *_, name = line.split()
            if int(number, 16) == int(wanted):
                return name
    return ""
