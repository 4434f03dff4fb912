"""What keeps the controller from working as it should, and how long a request waits for it.

Orders come before questions: what computes an answer rests while somebody waits for an order.
Python runs one thread at a time. A simulation beside the event loop takes every other turn from it,
and on a busy machine each turn is waited for again. So a simulation lets go between two of its
parts for as long as an order is under way, but never for long: many who submit without a pause
must not keep others from an answer.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from treadle.wire.problems import UnavailableError, UnsettledError

REST_S = 0.1  # at most, in one place
PASSED = 2  # places that are passed without a rest, after one that was too short
PATIENCE_S = 20.0

Answer = TypeVar("Answer")


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


@dataclass(slots=True)
class Condition:
    """Set by the part that notices it; shown to people."""

    draining: bool = False  # it is about to leave and starts nothing
    store_error: str = ""  # why the store cannot be written now
    store_silent: str = ""  # that the store does not answer reads now
    orders: OrdersUnderWay = field(default_factory=OrdersUnderWay)


def check_store(condition: Condition) -> None:
    """Refuse what must be written while the store cannot be."""
    if error := condition.store_error:
        raise UnavailableError(
            f"the store cannot be written now: {error}", hint="nothing was changed; try again"
        )


async def on_disk(
    wanted: Coroutine[Any, Any, Answer] | asyncio.Future[Answer],
    condition: Condition,
    *,
    within_s: float = PATIENCE_S,
) -> Answer:
    """Wait until it is on disk, but not for as long as a store may be down."""
    task, until_s = asyncio.ensure_future(wanted), _now() + within_s
    while not task.done() and _now() < until_s:
        await asyncio.wait({task}, timeout=1.0)
        if condition.store_error:
            break
    if task.done():
        return task.result()
    task.add_done_callback(_seen)
    why = condition.store_error or "the store is slow"
    raise UnsettledError(
        "it is kept in memory only: it is done once the store can be written, and forgotten if the "
        f"daemon ends before ({why})"
    )


def _now() -> float:
    return asyncio.get_running_loop().time()


def _seen(task: "asyncio.Future[Answer]") -> None:
    """No request waits for it any more; mark its error as seen."""
    if not task.cancelled():
        task.exception()
