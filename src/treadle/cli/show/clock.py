"""The command line's clock: the time, pauses, and moments as text."""

import time


def now_at() -> float:
    """Seconds since 1970."""
    return time.time()


def stopwatch_s() -> float:
    """Seconds since an arbitrary moment; setting the system clock has no effect."""
    return time.monotonic()


def pause(seconds: float) -> None:
    time.sleep(seconds)


def clock_text(moment_at: float) -> str:
    """The local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(moment_at))


def date_text(moment_at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment_at))
