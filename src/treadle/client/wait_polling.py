"""How `wait` looks: often at first, then once a second. The client's only look at a clock."""

import time
from collections.abc import Callable, Collection, Iterator

# More jobs than this are looked for in the list of all active ones instead of one by one.
ONE_BY_ONE_MAX = 30
LOOK_S_FIRST = 0.05
LOOK_S_MAX = 1.0
ABSENCE_S_MAX = 3600.0


def looks(
    timeout_s: float | None, left: Collection[str], now: Callable[[], float] = time.monotonic
) -> Iterator[float]:
    """Seconds to wait before each look; raises when the time is up and jobs are left."""
    end_at = None if timeout_s is None else now() + timeout_s
    delay_s = LOOK_S_FIRST
    while True:
        if end_at is not None:
            if (left_s := end_at - now()) <= 0:
                raise TimeoutError(_not_ended(left, timeout_s))
            yield min(delay_s, left_s)
        else:
            yield delay_s
        delay_s = min(1.5 * delay_s, LOOK_S_MAX)


class Absence:
    """How long the server has not answered; a wait outlives its restarts."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since: float | None = None
        self._met = False

    def answered(self) -> None:
        self._since, self._met = None, True

    def lasts(self, error: Exception) -> None:
        """Raise the error if it has lasted too long, or there never was an answer."""
        at = self._now()
        self._since = at if self._since is None else self._since
        if not self._met or at - self._since > ABSENCE_S_MAX:
            raise error


def now() -> float:
    return time.monotonic()


def sleep(delay_s: float) -> None:
    time.sleep(delay_s)


def _not_ended(left: Collection[str], timeout_s: float | None) -> str:
    names = ", ".join(sorted(left)[:5]) + (" ..." if len(left) > 5 else "")
    return f"{len(left)} of the jobs had not ended after {timeout_s:g} s: {names}"
