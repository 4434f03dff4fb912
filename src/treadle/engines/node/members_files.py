"""The files by which an engine orders changes of a running attempt, and reads what was reached."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treadle.engines.node.plain_files import read_document

TARGET, REACHED = "target.json", "members.json"
_KEYS = frozenset({"action", "devices", "holds", "can", "refused", "stall_s"})


def read_members(folder: Path) -> Mapping[str, Any] | None:
    """What a supervisor wrote of its members; None if there is nothing."""
    return read_document(f"{folder}/{REACHED}", _KEYS)
