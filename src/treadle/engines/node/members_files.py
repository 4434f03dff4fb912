"""The files by which an engine orders changes of a running attempt, and reads what was reached."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

TARGET, REACHED = "target.json", "members.json"
BYTES_MAX = 1 << 20
_KEYS = frozenset({"action", "devices", "holds", "can", "refused", "stall_s"})


def read_members(folder: Path) -> Mapping[str, Any] | None:
    """What a supervisor wrote of its members; None if there is nothing."""
    with suppress(OSError, ValueError):
        with (folder / REACHED).open("rb") as file:
            found = json.loads(file.read(BYTES_MAX))
        if isinstance(found, dict) and found.keys() >= _KEYS:
            return found
    return None
