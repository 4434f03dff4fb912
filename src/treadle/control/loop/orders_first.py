"""Orders before questions: what computes an answer rests while somebody waits for an order.

Python runs one thread at a time. A simulation beside the event loop takes every other turn from it,
and on a busy machine each turn is waited for again. So a simulation lets go between two of its
parts for as long as an order is under way, but never for long: many who submit without a pause
must not keep others from an answer.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

REST_S = 0.1  # at most, in one place
PASSED = 2  # places that are passed without a rest, after one that was too short


class OrdersUnderWay:
    """Counts orders on the event loop, and is waited for in other threads."""

    def __init__(self) -> None:
        self.number = 0
        self._none = threading.Event()
        self._none.set()
        self._to_pass = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """An order that somebody waits for."""
        self.number += 1
        self._none.clear()
        try:
            yield
        finally:
            self.number -= 1
            if not self.number:
                self._none.set()

    def rest(self) -> None:
        """Wait until no order is under way, but not for long; for one thread beside the loop."""
        if self._to_pass:
            self._to_pass -= 1
        elif not self._none.wait(REST_S):
            self._to_pass = PASSED
