"""The rows and holds of a Gantt chart of devices."""

from collections.abc import Iterable, Sequence

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.reports.run_history import Hold

HOLDS_MAX = 30_000  # rectangles of one policy's chart


class Rows:
    """The chart row of each device: nodes in cluster order, then nodes that joined later."""

    def __init__(self, cluster: Cluster, holds: Iterable[Hold]) -> None:
        widths = {node.name: node.device_count for node in cluster.nodes}
        for hold in holds:
            for name, number in hold.allocation.devices:
                if number >= widths.get(name, 0):
                    widths[name] = number + 1
        self.nodes = list(widths.items())  # name and device count
        self._first: dict[str, int] = {}
        self.count = 0
        for name, width in self.nodes:
            self._first[name] = self.count
            self.count += width

    def spans(self, allocation: Allocation) -> list[int]:
        """Rows as first, count, first, count, ..."""
        first = self._first
        rows = sorted(first[name] + number for name, number in allocation.devices)
        spans = [rows[0], 1]
        for row in rows[1:]:
            if row == spans[-2] + spans[-1]:
                spans[-1] += 1
            else:
                spans += [row, 1]
        return spans


def largest(holds: Sequence[Hold], holds_max: int) -> list[Hold]:
    """At most `holds_max` holds, the largest by device-seconds, in order of time."""
    shown = holds
    if len(holds) > holds_max:
        shown = sorted(holds, key=device_s, reverse=True)[:holds_max]
    return sorted(shown, key=lambda hold: hold.from_at)


def shown_share(shown: Iterable[Hold], holds: Iterable[Hold]) -> float:
    """The share of held device time in the holds shown."""
    whole_s = sum(map(device_s, holds))
    return sum(map(device_s, shown)) / whole_s if whole_s else 1.0


def device_s(hold: Hold) -> float:
    return hold.allocation.size * (hold.to_at - hold.from_at)
