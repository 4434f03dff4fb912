"""The command line's clock: now, waiting a little, and moments as people read them."""

import time


def now_at() -> float:
    """Seconds since 1970."""
    return time.time()


def stopwatch_s() -> float:
    """Seconds from some moment on; setting the clock does not move it."""
    return time.monotonic()


def pause(seconds: float) -> None:
    time.sleep(seconds)


def clock_text(moment_at: float) -> str:
    """The time of day where the reader is."""
    return time.strftime("%H:%M:%S", time.localtime(moment_at))


def date_text(moment_at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment_at))
