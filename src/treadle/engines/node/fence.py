"""Until when the ranks of a node may run: a lease that its agent renews and supervisors read.

A node that is cut off from its cluster must not go on writing while its jobs run elsewhere. The
agent writes the moment into a file as long as the cluster confirms that the node is a member. The
moment is by the clock that counts from the start of the machine, sleep included.

Part of the supervisor: it imports the standard library alone.
"""

import time
from contextlib import suppress
from pathlib import Path

LOOK_EVERY_S = 5.0  # at most: a poll does not count the time in which the machine slept


def now() -> float:
    """Seconds since the machine was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write(path: Path, until: float) -> None:
    """Let ranks run until then; the file is replaced in one piece."""
    through = path.with_suffix(".new")
    through.write_text(f"{until:.3f}")
    through.replace(path)


def read(path: Path, *, otherwise: float = 0.0) -> float:
    """Until when ranks may run."""
    with suppress(OSError, ValueError):
        return float(path.read_bytes())
    return otherwise


class Fence:
    """The lease as a supervisor sees it."""

    def __init__(self, path: Path | None) -> None:
        """path: None if the ranks may run for ever."""
        self._path = path
        self._until = 0.0  # by the clock of the file

    def is_closed(self) -> bool:
        """Whether the lease has run out. If the file cannot be read, what it said last counts."""
        if self._path is None:
            return False
        if now() >= self._until:
            self._until = read(self._path, otherwise=self._until)
        return now() >= self._until

    def left_s(self) -> float | None:
        """Seconds until the next look; None if none is needed."""
        if self._path is None:
            return None
        left_s = self._until - now()
        return min(LOOK_EVERY_S, left_s) if left_s > 0 else LOOK_EVERY_S
