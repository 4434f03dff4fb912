"""The line to the coordinator: a thread listens, the training thread asks and waits.

The coordinator made a pair of sockets and this process inherited one end, so there is no path, no
port and nothing to authenticate. It ends when either side does.
"""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from treadle.core.member_messages import LINE_BYTES_MAX, Answer, Halt, Order, decode, encode
from treadle.train.orders import Next, Orders

Decision = TypeVar("Decision")
LOOK_EVERY_S = 0.1  # while it waits: a signal handler cannot wake it


class Channel:
    """One end of the line, with the orders that came over it."""

    def __init__(self, descriptor: int, cut: Callable[[int], None]) -> None:
        """cut: gives up what is in flight in groups older than that version."""
        self._cut = cut
        self.orders = Orders()
        self.closed = False
        self._socket = socket.socket(fileno=descriptor)
        # Programs that the training script runs must not hold the line open.
        self._socket.set_inheritable(False)
        self._changed = threading.Condition()
        self._saying = threading.Lock()
        self._pid = os.getpid()
        threading.Thread(target=self._listen, name="treadle-orders", daemon=True).start()

    def say(self, answer: Answer) -> None:
        """Send; if the coordinator is gone, that shows elsewhere."""
        if self._pid != os.getpid():  # a process that the script forked
            return
        with self._saying, suppress(OSError):
            self._socket.sendall(encode(answer))

    def set_applied(self, applied: int) -> None:
        with self._changed:
            self.orders.applied = applied

    def formed(self, version: int) -> None:
        with self._changed:
            self.orders.formed(version)

    def wait(
        self, decide: Callable[[], Decision], stop: Callable[[], bool] = lambda: False
    ) -> Decision:
        """What to do, as soon as it is something else than to wait.

        stop: do not wait any longer. If the coordinator is gone, no order will come.
        """
        with self._changed:
            while True:
                decision = decide()
                if decision is not Next.WAIT or self.closed or stop():
                    return decision
                self._changed.wait(LOOK_EVERY_S)

    def _listen(self) -> None:
        buffer = b""
        with suppress(OSError, ValueError):
            while data := self._socket.recv(LINE_BYTES_MAX):
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    self._hear(line)
                if len(buffer) > LINE_BYTES_MAX:
                    break
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def _hear(self, line: bytes) -> None:
        message = decode(line)
        if message is None or not isinstance(message, Order):
            return
        with self._changed:
            answer = self.orders.hear(message)
            # Said under the lock: the training thread cannot pass a boundary before it is true.
            if answer is not None:
                self.say(answer)
            self._changed.notify_all()
        if isinstance(message, Halt) and message.at_step is None:
            self._cut(message.version)
