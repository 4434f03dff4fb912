"""Work that may block, away from the event loop: a few threads, deadlines and a breaker.

The event loop must answer at all times: `/health`, orders and signals. So nothing that can wait for
a disk or a server runs on it. A thread that waits for a database which has stopped cannot be
interrupted. It is left behind, and after two of them the next reads are refused at once, instead of
taking the other threads as well; one at a time is let through to see whether the store answers.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from treadle.control.loop.condition import Condition
from treadle.store.errors import StoreError
from treadle.store.store import Store

READERS = 4  # threads that ask the store; it has 8 connections for reads
READ_WITHIN_S = 5.0
MISSES = 2  # reads without an answer in a row; one may be a large question, two are a store's fault
SLOW_S = 2.0  # a connection for which a read waited so long in vain
PROBE_EVERY_S = 2.0
PROBE_WITHIN_S = 1.0

Answer = TypeVar("Answer")
Given = ParamSpec("Given")


class DaemonThreads(Executor):
    """A bounded pool whose threads do not keep the process alive.

    ThreadPoolExecutor joins its threads when the interpreter exits: one stuck read would keep a
    daemon that was told to leave.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._closed = False
        self._start_thread()  # The first is there before anything can be used up.

    def submit(
        self, fn: Callable[Given, Answer], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> "Future[Answer]":
        future: Future[Answer] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:  # it is raised where the future is awaited
                    future.set_exception(error)

        with self._lock:
            if self._closed:
                raise RuntimeError(f"the threads for {self._name} are closed")
            self._unfinished += 1
            if self._unfinished > len(self._threads) < self._most:
                self._start_thread()
        self._work.put(run)
        return future

    def _start_thread(self) -> None:
        """One more; where processes are used up, those that there are go on."""
        name = f"{self._name} {len(self._threads) + 1}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Let threads end once they have done their work; never waits for them."""
        with self._lock:
            self._closed = True
            started = len(self._threads)
        for _ in range(started):
            self._work.put(None)

    def join(self, within_s: float) -> None:
        """After `shutdown`: wait until the threads have ended, but no longer than this."""
        until_s = time.monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            with self._lock:
                self._unfinished -= 1


class StoreReads:
    """Asks the store in threads, with a deadline."""

    def __init__(
        self, store: Store, condition: Condition, *, within_s: float = READ_WITHIN_S
    ) -> None:
        self._store = store
        self._condition = condition
        self._within_s = within_s
        self._threads = DaemonThreads(READERS, "store reads")
        self._misses = 0
        self._probing = False
        self._probe_at = 0.0

    async def ask(self, read: Callable[[Store], Answer]) -> Answer:
        """What the store answers; a StoreError if it does not within the deadline."""
        if self._misses < MISSES:
            return await self._ask(read, self._within_s)
        if self._probing or _now() < self._probe_at:
            raise self._silence()
        self._probing = True
        try:
            return await self._ask(read, PROBE_WITHIN_S)
        finally:
            self._probing = False

    async def _ask(self, read: Callable[[Store], Answer], within_s: float) -> Answer:
        begun = _now()
        asked = self._threads.submit(read, self._store)
        waiting = asyncio.wrap_future(asked)
        waiting.add_done_callback(partial(self._returned, begun))
        await asyncio.wait({waiting}, timeout=within_s)
        if not waiting.done():
            asked.cancel()  # If it runs, it runs on: nothing can interrupt it.
            self._missed()
            raise self._silence()
        error = waiting.exception()
        if isinstance(error, StoreError) and _in_vain(error, begun):
            waited_s = round(_now() - begun)
            raise StoreError(
                f"the store {self._store.name} has not answered for {waited_s} s ({error})",
                retryable=True,  # It may be reached again, whatever kept it away.
                fate_unknown=error.fate_unknown,
                unreached=True,
            ) from error
        return waiting.result()

    def close(self) -> None:
        self._threads.shutdown()

    def _returned(self, begun: float, waiting: "asyncio.Future[Any]") -> None:
        """A read has come back, perhaps long after it was given up."""
        if waiting.cancelled():
            return
        error = waiting.exception()
        if not isinstance(error, StoreError):
            self._misses = 0
            self._condition.store_silent = ""
        elif _in_vain(error, begun) and _now() - begun < self._within_s:
            self._missed()

    def _missed(self) -> None:
        self._misses += 1
        self._probe_at = _now() + PROBE_EVERY_S
        self._condition.store_silent = str(self._silence())

    def _silence(self) -> StoreError:
        return StoreError(
            f"the store {self._store.name} has not answered for {self._within_s:g} s",
            retryable=True,
        )


def _in_vain(error: StoreError, begun: float) -> bool:
    """Whether a read waited for a connection; any other error is an answer, however late."""
    return error.unreached and _now() - begun > SLOW_S


def _now() -> float:
    return asyncio.get_running_loop().time()
