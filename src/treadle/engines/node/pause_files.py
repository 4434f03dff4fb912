"""The files by which an engine orders pauses of a running attempt, and reads what was reached.

Part of the supervisor: it imports the standard library alone.
"""

import json
from collections.abc import Mapping
from typing import Any

from treadle.engines.node.plain_files import put, read_document

WANTED, REACHED = "pause.json", "paused.json"
# action: the newest order that was answered. how: "" if it computes, else how it is paused. why: it
# could not be as that order said. since: of the pause, by the monotonic clock; away_s: those
# before it.
NEVER: Mapping[str, Any] = {
    "action": -1,
    "how": "",
    "why": "",
    "since": None,
    "away_s": 0.0,
    "took_s": 0.0,
}


def read_reached(folder: str) -> Mapping[str, Any] | None:
    """What a supervisor wrote of pauses; None if it was never paused."""
    return read_document(f"{folder}/{REACHED}", NEVER.keys())


def read_wanted(folder: str) -> Mapping[str, Any] | None:
    return read_document(f"{folder}/{WANTED}", {"action", "how", "why"})


def write(path: str, document: Mapping[str, Any]) -> None:
    put(path, json.dumps(document).encode())


def away_s(reached: Mapping[str, Any] | None, now: float) -> float:
    """For how long the attempt was paused by now, in all."""
    if reached is None:
        return 0.0
    since = reached["since"]
    return float(reached["away_s"]) + (0.0 if since is None else max(0.0, now - since))
