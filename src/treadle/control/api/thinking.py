"""Answers that must be computed: in one thread, on a copy of the scheduler, once for each step.

To explain a wait or to try a submission takes simulations, and with ten thousand jobs waiting these
take up to seconds. On the event loop nothing else would be answered meanwhile. So the scheduler is
copied there (0.5 ms with 10,000 jobs, since its rows are values) and asked here. What else an
answer looks through is copied with it: the loop goes on changing the originals. One thread is
enough: Python runs one at a time, and more of them would only take more turns from the loop.

The same question about the same state is answered once. Everything that changes the state is a step
that is committed, so the number of steps names it; since time passes too, an answer is used again
for a second at most.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from treadle.control.api.context import Context
from treadle.control.loop import DaemonThreads
from treadle.wire.problems import UnavailableError

WITHIN_S = 30.0
FRESH_S = 1.0

Answer = TypeVar("Answer")


class Thinking:
    """Computes beside the event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._thread = DaemonThreads(1, "thinking")
        self._work: deque[Callable[[], None]] = deque()
        self._version: Hashable = None
        self._frozen = context
        self._answers: dict[Hashable, asyncio.Future[Any]] = {}

    async def about(
        self,
        question: Hashable,
        compute: Callable[[Context], Answer],
        *,
        names: Iterable[str] = (),
    ) -> Answer:
        """What `compute` makes of the present state; `question` says what else it depends on.

        names: jobs and arrays whose states it asks for.
        """
        version = self._now()
        if version != self._version:
            self._version, self._answers = version, {}
            self._frozen = self._context.frozen()
        found = self._answers.get(question)
        if found is None:
            frozen = self._frozen.knowing(names, self._context.jobs)
            found = asyncio.wrap_future(self._computing(compute, frozen))
            found.add_done_callback(_seen)  # The one who asks may have gone away.
            self._answers[question] = found
        await asyncio.wait({found}, timeout=WITHIN_S)
        if not found.done():
            raise UnavailableError(
                f"the answer was not computed within {WITHIN_S:g} s: too many questions are open",
                hint="try again",
            )
        answer: Answer = found.result()
        return answer

    def close(self) -> None:
        self._thread.shutdown()

    def _computing(self, compute: Callable[[Context], Answer], frozen: Context) -> "Future[Answer]":
        future: Future[Answer] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(compute(frozen))
                except BaseException as error:  # it is raised where the future is awaited
                    future.set_exception(error)

        self._work.append(work)
        self._thread.submit(self._next)
        return future

    def _next(self) -> None:
        """One piece of work, in the thread."""
        self._context.condition.orders.rest()
        self._work.popleft()()

    def _now(self) -> Hashable:
        """What the answers depend on; if it is the same, so are they."""
        context = self._context
        condition = context.condition
        return (
            context.commit.steps,
            len(context.jobs.records),
            context.charge.wrapped,
            context.charge.since_at,
            context.charge.failing,
            condition.draining,
            condition.store_error,
            context.clock.now() // FRESH_S,
        )


def _seen(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()
