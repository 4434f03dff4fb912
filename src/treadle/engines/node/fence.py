"""Until when the ranks of a node may run: a grant that its agent renews and supervisors read.

A node that is cut off from its cluster must not go on writing while its jobs run elsewhere. The
agent writes the moment into a file as long as the cluster confirms that the node is a member. The
moment is by the clock that counts from the start of the machine, sleep included. It may come
nearer: the next controller may have another --failover.

Part of the supervisor: it imports the standard library alone.
"""

import time
from contextlib import suppress
from pathlib import Path

from treadle.engines.node import kept_value

LOOK_EVERY_S = 5.0  # at most: a poll does not count the time in which the machine slept


def now() -> float:
    """Seconds since the machine was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write(path: Path, until: float, whose: str = "") -> None:
    """Let ranks run until then, also if the disk is full. whose: a mark of the grant."""
    kept_value.write(path, f"{until:.3f} {whose}")


def read(path: Path, *, otherwise: float = 0.0) -> float:
    """Until when ranks may run; a write that was cut off counts as none."""
    with suppress(OSError, ValueError):
        return float((kept_value.read(path) or "").partition(" ")[0])
    return otherwise


def whose(path: Path) -> str | None:
    """The mark of the grant; None if there is none."""
    with suppress(OSError):
        found = kept_value.read(path)
        return None if found is None else found.partition(" ")[2]
    return None


class Fence:
    """The grant as a supervisor sees it."""

    def __init__(self, path: Path | None) -> None:
        """path: None if the ranks may run for ever."""
        self._path = path
        self._until = self._look_at = 0.0  # by the clock of the file

    def is_closed(self) -> bool:
        """Whether the grant has run out. If the file cannot be read, what it said last counts."""
        if self._path is None:
            return False
        if now() >= min(self._until, self._look_at):
            self._until = read(self._path, otherwise=self._until)
            self._look_at = now() + LOOK_EVERY_S
        return now() >= self._until

    def left_s(self) -> float | None:
        """Seconds until the next look; None if none is needed."""
        if self._path is None:
            return None
        left_s = min(self._until, self._look_at) - now()
        return min(LOOK_EVERY_S, left_s) if left_s > 0 else LOOK_EVERY_S
