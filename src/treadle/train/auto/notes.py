"""What members of one attempt leave for each other in a folder in memory: hints, not a protocol.

Without the folder, or with members on another machine, nothing is found, and all still works:
newcomers catch up when they have joined, not before.
"""

import os
from contextlib import suppress
from pathlib import Path

PASS = "pass"  # how many passes over a loader the first rank has begun
ENDED = "ended-"  # a file for each member whose script has ended: after how many steps


class Notes:
    """The notes of one member."""

    def __init__(self, me: str) -> None:
        """me: the name of the member, "m0", "m1", ...: the oldest have the lowest numbers."""
        self._me = me
        named = os.environ.get("TREADLE_MEMORY_DIR")
        self._folder = Path(named) if named else None

    def passes(self) -> int:
        if self._folder is not None:
            with suppress(OSError, ValueError):
                return int((self._folder / PASS).read_text())
        return 0

    def write_pass(self, number: int) -> None:
        if self._folder is not None:
            with suppress(OSError):
                draft = self._folder / f"{PASS}.new"
                draft.write_text(str(number))
                draft.replace(self._folder / PASS)

    def write_end(self, applied: int) -> None:
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / f"{ENDED}{self._me}").write_text(str(applied))

    def older_has_ended(self, applied: int) -> bool:
        """Whether the script of an older member has ended after so many steps."""
        if self._folder is None:
            return False
        for path in self._folder.glob(f"{ENDED}m*"):
            with suppress(OSError, ValueError):
                older = int(path.name[len(ENDED) + 1 :]) < int(self._me[1:])
                if older and int(path.read_text()) == applied:
                    return True
        return False
