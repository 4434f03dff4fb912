"""Threads for work that may block, on a machine that may run out of processes."""

from concurrent.futures import ThreadPoolExecutor


class SteadyThreads(ThreadPoolExecutor):
    """Goes on with the threads it has where no further one can be started.

    The standard pool raises RuntimeError to whoever hands it work, and every read of a log, every
    look at a device and every verdict would fail while processes are used up.
    """

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="treadle")
        self.submit(int).result()  # The first thread is there before anything can be used up.

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise
