"""What the supervisors of one attempt on two nodes say to each other: lines of JSON, both ways.

A `Talk` outlives its connections: after a cut the one who calls does so again, and each side says
again what the other one has not heard. On each connection (`PeerLink`) both prove that they know
the key of the attempt, and every line after that carries a mark that takes this key, with its
number: what others on the network say is not listened to. It is not a secret what is said.

Part of the supervisor: it imports the standard library alone.
"""

import hmac
import json
import os
import socket
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

MARK = 32  # characters before each line
GREETING_BYTES_MAX = 4096
BYTES_MAX = 1 << 20  # of one line
READ_BYTES = 1 << 16
KEPT_MAX = 4096  # messages that the other one may not have heard: members are not read then
# A peer whose machine is gone sends nothing that would close the connection.
DEAD_AFTER_S = 15
_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),  # Else a second line waits 40 ms for the first.
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, DEAD_AFTER_S // 3),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, DEAD_AFTER_S // 3),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_S * 1000),
)


def key_of(order: Mapping[str, Any]) -> bytes:
    """The same for all supervisors of an attempt: its nonce, and the token of its job."""
    token = order["env"].get("TREADLE_JOB_TOKEN", "")
    return _mark(token.encode(), f"{order['job']} {order['attempt']} {order['nonce']}").encode()


def _mark(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), "sha256").hexdigest()


class PeerLink:
    """One side of it. It never blocks: call `look` when there is something to read, or to send."""

    def __init__(
        self, line: socket.socket, key: bytes, about: Mapping[str, Any] | None = None
    ) -> None:
        """about: what this side, which called, says of itself; None: the other one called."""
        line.setblocking(False)
        with suppress(OSError):
            for option in _OPTIONS:
                line.setsockopt(*option)
        self._line, self._key = line, key
        self.about = about  # the one who called; None until it is known who that is
        self._calls = about is not None
        self._challenge, self._both = os.urandom(16).hex(), ""
        self._greeting: Mapping[str, Any] = {}
        self._session = b""  # the key of this connection, once both have proven themselves
        self._in, self._out = b"", b""
        self._sent = self._heard = 0
        self.closed = False
        if about is not None:
            self._write({**about, "challenge": self._challenge})

    @property
    def open(self) -> bool:
        return bool(self._session) and not self.closed

    @property
    def owes(self) -> bool:
        """Whether something could not be sent yet."""
        return bool(self._out) and not self.closed

    def fileno(self) -> int:
        return self._line.fileno()

    def say(self, message: Mapping[str, Any]) -> None:
        """Send it as soon as that is possible; once it is open."""
        body = json.dumps(message)
        self._sent += 1
        self._out += f"{self._marked(body, self._sent, own=True)}{body}\n".encode()
        self._flush()

    def look(self) -> list[Mapping[str, Any]]:
        """Send what waits; what the other one said."""
        self._flush()
        while not self.closed:
            try:
                data = self._line.recv(READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.close()
            self._in += data
        *lines, self._in = self._in.split(b"\n")
        if len(self._in) > (BYTES_MAX if self._session else GREETING_BYTES_MAX):
            self.close()
        found = []
        try:
            for line in lines:
                found += self._take(line.decode())
        except (ValueError, KeyError, TypeError, AttributeError):
            self.close()
        return found

    def close(self) -> None:
        self.closed = True
        self._line.close()

    # -- inside ---------------------------------------------------------------------------------

    def _take(self, line: str) -> list[Mapping[str, Any]]:
        if not self._session:
            self._greet(json.loads(line))
            return []
        self._heard += 1
        mark, body = line[:MARK], line[MARK:]
        if not hmac.compare_digest(mark, self._marked(body, self._heard, own=False)):
            raise ValueError("a line that the other one did not write")
        return [json.loads(body)]

    def _greet(self, said: Mapping[str, Any]) -> None:
        """1. Who calls, and a challenge. 2. The answer's proof and challenge. 3. The proof."""
        if self._calls:
            self._agree(self._challenge, said["challenge"], self.about or {})
            self._prove("answers", said["proof"])
            self._write({"proof": self._proof("calls")})
        elif not self._both:
            self._greeting = {name: what for name, what in said.items() if name != "challenge"}
            self._agree(said["challenge"], self._challenge, self._greeting)
            self._write({"challenge": self._challenge, "proof": self._proof("answers")})
            return
        else:
            self._prove("calls", said["proof"])
            self.about = self._greeting
        self._session = _mark(self._key, f"session {self._both}").encode()

    def _agree(self, first: str, second: str, about: Mapping[str, Any]) -> None:
        self._both = json.dumps([first, second, about], sort_keys=True)

    def _proof(self, side: str) -> str:
        return _mark(self._key, f"{side} {self._both}")

    def _prove(self, side: str, proof: str) -> None:
        if not hmac.compare_digest(proof, self._proof(side)):
            raise ValueError("it does not know the key of the attempt")

    def _marked(self, body: str, number: int, *, own: bool) -> str:
        side = "calls" if own == self._calls else "answers"
        return _mark(self._session, f"{side} {number} {body}")[:MARK]

    def _write(self, message: Mapping[str, Any]) -> None:
        self._out += json.dumps(message).encode() + b"\n"
        self._flush()

    def _flush(self) -> None:
        with suppress(BlockingIOError):
            try:
                while self._out and not self.closed:
                    self._out = self._out[self._line.send(self._out) :]
            except BlockingIOError:
                raise
            except OSError:
                self.close()


class Talk:
    """All that two supervisors say to each other, over one connection after another."""

    def __init__(self) -> None:
        self._link: PeerLink | None = None
        self._greeted = False  # it was said on this connection what was heard on those before
        self._resumed = False  # and the other one said so
        self._said: deque[Mapping[str, Any]] = deque()  # what it may not have heard yet
        self._dropped = self._heard = 0  # of what was said, and of what the other one said

    @property
    def closed(self) -> bool:
        """Whether there is no connection now."""
        return self._link is None or self._link.closed

    @property
    def open(self) -> bool:
        return self._link is not None and self._link.open

    @property
    def owes(self) -> bool:
        """Whether something could not be sent yet."""
        return self._link is not None and self._link.owes

    @property
    def full(self) -> bool:
        """Whether so much is kept for the other one that no more should be read to be passed on."""
        return len(self._said) >= KEPT_MAX

    @property
    def unheard(self) -> bool:
        """Whether the other one may not have heard all, and can."""
        return bool(self._said) and not self.closed

    def fileno(self) -> int:
        return -1 if self._link is None else self._link.fileno()

    def connect(
        self, link: PeerLink, said: Iterable[Mapping[str, Any]] = ()
    ) -> list[Mapping[str, Any]]:
        """Go on over this connection. said: on it already; what of that is news."""
        self.close()
        self._link, self._greeted, self._resumed = link, False, False
        return self._take(link, said)

    def say(self, message: Mapping[str, Any]) -> None:
        self._said.append(message)
        if self._resumed and self._link is not None and self._link.open:
            self._link.say(message)

    def look(self) -> list[Mapping[str, Any]]:
        """Send what waits; what the other one said."""
        return [] if self._link is None else self._take(self._link, self._link.look())

    def close(self) -> None:
        if self._link is not None:
            self._link.close()

    def _take(self, link: PeerLink, said: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        news = []
        for message in said:
            match message:
                case {"heard": int(count)}:
                    self._resume(link, count)
                case _:
                    self._heard += 1
                    news.append(message)
        if link.open and (news or not self._greeted):
            self._greeted = True
            link.say({"heard": self._heard})
        return news

    def _resume(self, link: PeerLink, heard: int) -> None:
        while self._said and self._dropped < heard:
            self._said.popleft()
            self._dropped += 1
        if not self._resumed:
            self._resumed = True
            for message in self._said:
                link.say(message)
