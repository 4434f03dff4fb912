"""What the controller and its Ray driver say to each other, over a socket.

Ray runs in a process of its own, the driver (driver.py). Ray ends a process whose cluster does not
answer for a minute, and it sets signal handlers and limits: the controller must outlive the one and
have none of the other. A message is its length in four bytes, then MessagePack. The bodies of
calls are documents of engines/fleet, passed on as they are.
"""

import asyncio
import socket
import struct
from typing import TypeVar

import msgspec

from treadle.core.cluster import Node
from treadle.core.errors import EngineError
from treadle.engines.context import EngineOptions

_LENGTH = struct.Struct("!I")
BYTES_MAX = 64 << 20  # of one message
BEAT_EVERY_S = 1.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The first message to the driver: which cluster, and how its nodes are used."""

    root: str  # the folder of each node's files is below it, on that node
    holder: str  # who this controller is, for people
    instance: str  # the same for all controllers of one state folder, of which one can run
    identity: str = ""  # of its state folder, wherever that is seen; empty: it has none
    epoch_min: int = 0  # the epoch to be given is above this one
    resumes: int = 0  # the epoch that this controller has; it lost its driver
    cluster: str = ""  # the mark of the only one that will do (same_cluster.py); empty: any will
    otherwise: str = ""  # why no other one will
    options: EngineOptions = msgspec.field(default_factory=EngineOptions)
    look_every_s: float = 1.0  # at the cluster's list of nodes


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A call for the agent of a node."""

    number: int
    node: str
    agent: str  # the incarnation that is meant
    verb: str
    document: bytes


class Answer(msgspec.Struct, frozen=True, tag=True):
    number: int
    document: bytes


class NoAnswer(msgspec.Struct, frozen=True, tag=True):
    number: int
    why: str


class NodeIs(msgspec.Struct, frozen=True, tag=True):
    """A node has an agent, perhaps another one than before."""

    node: Node
    address: str
    agent: str
    machine: str


class NodeLeft(msgspec.Struct, frozen=True, tag=True):
    name: str
    why: str


class Unused(msgspec.Struct, frozen=True, tag=True):
    """A node is a member and is not used."""

    name: str
    why: str  # empty: it may be used, or is no member any more


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The nodes that have agents were named. Others may follow."""

    epoch: int
    coming: tuple[str, ...] = ()  # nodes that are members and have no agent yet
    cluster: str = ""  # its mark


class Beat(msgspec.Struct, frozen=True, tag=True):
    """The driver lives: one every BEAT_EVERY_S once it is ready."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The driver ends; in one sentence why."""

    why: str


FromDriver = Answer | NoAnswer | NodeIs | NodeLeft | Unused | Ready | Beat | Refused

_encoder = msgspec.msgpack.Encoder()
FROM_DRIVER: msgspec.msgpack.Decoder[FromDriver] = msgspec.msgpack.Decoder(FromDriver)
ASK: msgspec.msgpack.Decoder[Ask] = msgspec.msgpack.Decoder(Ask)
SETTINGS: msgspec.msgpack.Decoder[Settings] = msgspec.msgpack.Decoder(Settings)
Message = TypeVar("Message")


class ClosedError(EngineError):
    """The other side of the socket is gone."""

    def __init__(self) -> None:
        super().__init__("the connection to Ray ended", retryable=True)


class TooLongError(EngineError):
    """A message that the other side would refuse, and end: it is not sent."""

    def __init__(self, length: int) -> None:
        super().__init__(
            f"a message of {length >> 20} MiB cannot be sent through Ray's driver, which takes "
            f"{BYTES_MAX >> 20} MiB",
            retryable=False,
        )


def packed(message: Settings | Ask | FromDriver) -> bytes:
    """Raises TooLongError."""
    body = _encoder.encode(message)
    if len(body) > BYTES_MAX:
        raise TooLongError(len(body))
    return _LENGTH.pack(len(body)) + body


def read_blocking(link: socket.socket) -> FromDriver:
    """The next message of the driver; raises ClosedError, or TimeoutError by the socket's limit."""
    length = _length(_exactly(link, _LENGTH.size))
    return FROM_DRIVER.decode(_exactly(link, length))


async def read(
    reader: asyncio.StreamReader, decoder: "msgspec.msgpack.Decoder[Message]"
) -> Message:
    """The next message; raises ClosedError."""
    try:
        length = _length(await reader.readexactly(_LENGTH.size))
        return decoder.decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, OSError):
        raise ClosedError from None


def _length(head: bytes) -> int:
    """Of a message; no room is made for more than one may have."""
    (length,) = _LENGTH.unpack(head)
    if length > BYTES_MAX:
        raise ClosedError
    return int(length)


def _exactly(link: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        try:
            piece = link.recv(count - len(found))
        except TimeoutError:
            raise
        except OSError:
            piece = b""
        if not piece:
            raise ClosedError
        found += piece
    return bytes(found)
