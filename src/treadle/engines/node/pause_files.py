"""The files by which an engine orders pauses of a running attempt, and reads what was reached.

Part of the supervisor: it imports the standard library alone.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from treadle.engines.node.plain_files import put, read

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
    with suppress(OSError, ValueError):
        found = json.loads(read(f"{folder}/{REACHED}"))
        if isinstance(found, dict) and found.keys() >= NEVER.keys():
            return found
    return None


def read_wanted(folder: str) -> Mapping[str, Any] | None:
    with suppress(OSError, ValueError):
        found = json.loads(read(f"{folder}/{WANTED}"))
        if isinstance(found, dict) and found.keys() >= {"action", "how", "why"}:
            return found
    return None


def write(path: str, document: Mapping[str, Any]) -> None:
    put(path, json.dumps(document).encode())


def away_s(reached: Mapping[str, Any] | None, now: float) -> float:
    """For how long the attempt was paused by now, in all."""
    if reached is None:
        return 0.0
    since = reached["since"]
    return float(reached["away_s"]) + (0.0 if since is None else max(0.0, now - since))
