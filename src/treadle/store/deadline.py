"""How long the store retries; the only place where it reads a clock."""

from time import monotonic, sleep

PAUSE_S_MIN = 0.02
PAUSE_S_MAX = 0.5


class Deadline:
    """A moment until which an operation is retried, with growing pauses."""

    def __init__(self, wait_s: float) -> None:
        self._ends_at = monotonic() + wait_s
        self._pause_s = PAUSE_S_MIN

    def pause(self) -> bool:
        """Wait a little before the next try; False at once if the time is up."""
        left_s = self._ends_at - monotonic()
        if left_s <= 0:
            return False
        sleep(min(self._pause_s, left_s))
        self._pause_s = min(self._pause_s * 2, PAUSE_S_MAX)
        return True
