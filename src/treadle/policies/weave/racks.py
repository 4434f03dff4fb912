"""Jobs that need several nodes have them in one rack, where there is room."""

from collections.abc import Sequence

from treadle.core.cluster import Cluster, Device
from treadle.core.free import FreeDevices
from treadle.policies.base.placement import Placement


class WithinRacks(Placement):
    """Another placement, but not across racks if one of them has room on as few nodes.

    The rack with the fewest free devices is taken, so that others stay free for larger jobs.
    """

    def __init__(self, inner: Placement, cluster: Cluster) -> None:
        self._inner = inner
        self._rack = cluster.rack_of()
        self._nodes: dict[str, set[str]] = {}
        for node, rack in self._rack.items():
            self._nodes.setdefault(rack, set()).add(node)

    @property
    def several(self) -> bool:
        return len(self._nodes) > 1

    def place(self, free: FreeDevices, size: int) -> tuple[Device, ...] | None:
        found = self._inner.place(free, size)
        if found is None or not self.several or not self._crosses(found):
            return found
        limit = len({device.node for device in found})
        racks = (free.only(nodes) for nodes in self._nodes.values())
        for rack in sorted((one for one in racks if one.total >= size), key=lambda one: one.total):
            inside = self._inner.place(rack, size)
            if inside is not None and len({device.node for device in inside}) <= limit:
                return inside
        return found

    def grain(self, size: int, free: FreeDevices) -> int:
        return self._inner.grain(size, free)

    def _crosses(self, devices: Sequence[Device]) -> bool:
        first = self._rack.get(devices[0].node)
        return any(self._rack.get(device.node) != first for device in devices)
