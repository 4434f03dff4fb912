"""The only file that reads a clock."""

import asyncio
import time
from collections.abc import Callable
from functools import cache
from math import isinf
from pathlib import Path
from typing import NamedTuple


class MonotonicClock:
    """Seconds since it was made, or more; a clock that is set back or forward does not move it."""

    def __init__(self, begun_s: float = 0.0) -> None:
        """`begun_s`: what it shows now; more than 0 if it continues an earlier run."""
        self._zero = _since_boot() - begun_s

    def now(self) -> float:
        return _since_boot() - self._zero

    async def sleep_until(self, moment: float) -> None:
        """Return at the moment, or never if it is infinitely far."""
        if isinf(moment):
            await asyncio.Event().wait()
        # The event loop may wake a hair early; the loop that called must not spin on that.
        while (left_s := moment - self.now()) > 0:
            await asyncio.sleep(left_s)


class Stamp(NamedTuple):
    """A moment on every clock there is, so that a later run can tell how much time has passed."""

    run_s: float  # of the run's own clock
    boot_s: float  # since the machine was started, sleep included
    boot_id: str
    wall_s: float  # since 1970

    @classmethod
    def take(cls, run_s: float) -> "Stamp":
        return cls(run_s, _since_boot(), _boot_id(), time.time())

    def passed_s(self) -> float:
        """Seconds since it was taken. The wall clock counts only across a restart of the machine,
        and never backwards."""
        if self.boot_id and self.boot_id == _boot_id():
            return max(0.0, _since_boot() - self.boot_s)
        return max(0.0, time.time() - self.wall_s)


def wall() -> float:
    """Seconds since 1970, for people and for other programs; nothing is decided by it."""
    return time.time()


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if _HAS_BOOT else time.monotonic()


@cache
def _boot_id() -> str:
    """Read once: later there may be no descriptor to read it with."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


_HAS_BOOT = hasattr(time, "CLOCK_BOOTTIME")


def date_text(at: float) -> str:
    """The local date of a moment, given in seconds since 1970."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


def worked_s() -> float:
    """Seconds of the processor that this thread has used."""
    return time.thread_time()


def worked_for(seconds: float) -> Callable[[], bool]:
    """Whether this thread has used that much of the processor from now on."""
    ends_at = worked_s() + seconds
    return lambda: worked_s() > ends_at
