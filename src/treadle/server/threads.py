"""Threads for work that may block: it may never come back, and processes may be used up."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from treadle.control.loop import DaemonThreads

MOST = min(32, (os.cpu_count() or 1) + 4)  # as many as asyncio has by default
LEAVE_WITHIN_S = 2.0

Answer = TypeVar("Answer")
Given = ParamSpec("Given")


class SteadyThreads(ThreadPoolExecutor):
    """The event loop's threads. They go on where no further one can be started, and keep no daemon.

    The standard pool raises RuntimeError at every piece of work where processes are used up, and a
    loop that ends waits for all its threads: one that waits for a disk would keep the daemon. It is
    a ThreadPoolExecutor by name only, because the loop takes no other.
    """

    def __init__(self) -> None:
        super().__init__(1)  # It starts no thread before it has work, and gets none.
        self._daemons = DaemonThreads(MOST, "treadle")

    def submit(
        self, fn: Callable[Given, Answer], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> "Future[Answer]":
        return self._daemons.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let work that is under way come to its end, but not for long."""
        self._daemons.shutdown(cancel_futures=cancel_futures)
        if wait:
            self._daemons.join(LEAVE_WITHIN_S)
