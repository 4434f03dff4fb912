"""Reads server-sent events from pieces of bytes, and knows where a broken stream goes on."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from treadle.client.errors import NoAnswerError

EVENT_BYTES_MAX = 16 * 2**20
# A stream that stays broken for about this long is given up.
PATIENCE_S = 30.0
DELAY_S_FIRST = 0.1
DELAY_S_MAX = 2.0
# The server breaks its silence every 15 s.
SILENCE_S_MAX = 45.0


class Received(NamedTuple):
    id: str
    name: str
    data: bytes


class EventReader:
    """Bytes in, events out; bytes may be cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[bytes, list[bytes]] = {}
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[Received]:
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        self._size += len(piece)
        for line in lines:
            yield from self._line(line.rstrip(b"\r"))
        if self._size > EVENT_BYTES_MAX:
            raise NoAnswerError(f"an event of the stream is longer than {EVENT_BYTES_MAX} bytes")

    def _line(self, line: bytes) -> Iterator[Received]:
        if line:
            name, _, value = line.partition(b":")
            if name:  # without one it is a comment
                self._fields.setdefault(name, []).append(value.removeprefix(b" "))
            return
        self._size = len(self._rest)
        found, self._fields = self._fields, {}
        if b"data" in found:
            yield Received(
                id=found.get(b"id", [b""])[-1].decode("utf-8", "replace"),
                name=found.get(b"event", [b"message"])[-1].decode("utf-8", "replace"),
                data=b"\n".join(found[b"data"]),
            )


@dataclass(slots=True)
class Resuming:
    """Where to go on, and how long to wait before the next try."""

    last: str = ""
    _begun: bool = False
    _waited_s: float = field(default=0.0)
    _delay_s: float = field(default=DELAY_S_FIRST)

    @property
    def headers(self) -> dict[str, str]:
        return {"Last-Event-ID": self.last} if self.last else {}

    def opened(self) -> None:
        self._begun = True

    def saw(self, event: Received) -> None:
        self.last = event.id or self.last
        self.connected()

    def connected(self) -> None:
        self._waited_s, self._delay_s = 0.0, DELAY_S_FIRST

    def broken(self, error: Exception) -> None:
        """Raise the error if the stream never was, or has been broken for too long."""
        if not self._begun or self._waited_s >= PATIENCE_S:
            raise error

    def delay_s(self) -> float:
        """How long to wait now."""
        delay_s = self._delay_s
        self._waited_s += delay_s
        self._delay_s = min(2 * delay_s, DELAY_S_MAX)
        return delay_s
