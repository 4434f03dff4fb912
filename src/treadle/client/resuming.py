"""Where a broken stream continues, and how long to wait before the next try.

The events themselves are read by httpx2, which has taken httpx-sse in.
"""

from collections.abc import Callable
from dataclasses import dataclass

from treadle.client import wait_polling as pace

# A stream that stays broken for about this long is given up: a daemon may take a while to restart.
PATIENCE_S = 3600.0
DELAY_S_FIRST = 0.1
DELAY_S_MAX = 2.0


@dataclass(slots=True)
class Resuming:
    last: str = ""  # id of the last event seen
    now: Callable[[], float] = pace.now
    _begun: bool = False
    _opened_at: float | None = None
    _waited_s: float = 0.0
    _delay_s: float = DELAY_S_FIRST

    @property
    def headers(self) -> dict[str, str]:
        return {"Last-Event-ID": self.last} if self.last else {}

    def opened(self) -> None:
        self._begun = True
        self._opened_at = self.now()

    def saw(self, event_id: str) -> None:
        self.last = event_id or self.last
        self._recover()

    def broken(self, error: Exception) -> None:
        """Raise the error if the stream never began, or has been broken for too long."""
        # A connection that lasted was a good one, even if nothing happened meanwhile.
        if self._opened_at is not None and self.now() - self._opened_at > DELAY_S_MAX:
            self._recover()
        self._opened_at = None
        if not self._begun or self._waited_s >= PATIENCE_S:
            raise error

    def delay_s(self) -> float:
        """How long to wait now."""
        delay_s = self._delay_s
        self._waited_s += delay_s
        self._delay_s = min(2 * delay_s, DELAY_S_MAX)
        return delay_s

    def _recover(self) -> None:
        self._waited_s, self._delay_s = 0.0, DELAY_S_FIRST
