"""How busy the devices of each attempt were on average, where a device tells.

Jobs that share a device share its busy time evenly: which of them was computing, nobody says.
"""

from collections import Counter
from collections.abc import Mapping

from treadle.core.job import JobId
from treadle.store.rows import AttemptRow
from treadle.wire.machine import NodeView

Key = tuple[JobId, int]


class Busyness:
    """Means over looks, of attempts that run."""

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[float, int]] = {}

    def see(self, node: NodeView, attempts: Mapping[Key, AttemptRow]) -> None:
        """Take one look at the devices in."""
        busy = {device.name: device.busy for device in node.devices if device.busy is not None}
        if not busy:
            return
        running = {key: row for key, row in attempts.items() if row.started_at is not None}
        sharers = Counter(device for row in running.values() for device in row.devices)
        for key, row in running.items():
            shares = [busy[name] / sharers[name] for name in row.devices if name in busy]
            if shares:
                total, looks = self._seen.get(key, (0.0, 0))
                self._seen[key] = (total + sum(shares) / len(shares), looks + 1)

    def taken(self, key: Key) -> float | None:
        """The mean of an attempt that has ended; it is forgotten."""
        total, looks = self._seen.pop(key, (0.0, 0))
        return total / looks if looks else None
