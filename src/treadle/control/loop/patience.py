"""How long a request waits for the store."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from treadle.control.loop.condition import Condition
from treadle.wire.problems import UnavailableError, UnsettledError

PATIENCE_S = 20.0

Answer = TypeVar("Answer")


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
