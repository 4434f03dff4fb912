"""Which devices: a placement turns a size into devices, or says that it does not fit.

Every placement is monotone: where a size does not fit, no larger one does. Policies rely on it to
look no further.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Protocol

from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.free import FreeDevices
from treadle.core.wording import did_you_mean, several, too_large


class Placement(Protocol):
    """A way to choose among free devices. It reads `free` and changes nothing."""

    def place(self, free: FreeDevices, size: int) -> tuple[Device, ...] | None: ...

    def grain(self, size: int, free: FreeDevices) -> int:  # noqa: ARG002
        """Devices that come free matter only on a node that then has at least so many.

        1 is always right; a placement that keeps to single nodes saves its callers much work.
        """
        return 1

    def in_parts(self) -> "Placement":
        """The same, but what is larger than a node may have parts of as few nodes as it needs."""
        return InParts(self)


class InParts(Placement):
    """Another placement; what is larger than a node may have parts of as few nodes as it needs.

    Whole nodes come first. Otherwise a job of one device on each of the nodes would keep a large
    job off all of them, though its ranks have to cross nodes in any case.
    """

    def __init__(self, inner: Placement) -> None:
        self._inner = inner

    def place(self, free: FreeDevices, size: int) -> tuple[Device, ...] | None:
        found = self._inner.place(free, size)
        return found if found is not None or size <= free.largest else on_few(free, size)

    def grain(self, size: int, free: FreeDevices) -> int:
        return self._inner.grain(size, free) if size <= free.largest else 1

    def in_parts(self) -> Placement:
        return self


class Count(Placement):
    """Devices are a counter: any free ones will do, on as few nodes as that allows."""

    def place(self, free: FreeDevices, size: int) -> tuple[Device, ...] | None:
        if size > free.total:
            return None
        position = free.tightest(size)
        if position is not None:
            return free.pick(position, size)
        rest = free.copy()
        devices: tuple[Device, ...] = ()
        while (missing := size - len(devices)) > 0:
            tight = rest.tightest(missing)
            position = rest.emptiest() if tight is None else tight
            assert position is not None, "the total says that there are enough"
            picked = rest.pick(position, min(missing, rest.count(position)))
            rest.take(picked)
            devices = (*devices, *picked)
        return devices


class _OnNodes(Placement):
    """One node that is chosen, whole empty nodes for what is larger than a node; never a split.

    What is left over after the whole nodes goes to one more node, chosen likewise. Where nodes are
    of several sizes the largest ones are taken first.
    """

    choose: Callable[[FreeDevices, int], int | None]

    def place(self, free: FreeDevices, size: int) -> tuple[Device, ...] | None:
        if size > free.total:
            return None
        if size <= free.largest:
            position = self.choose(free, size)
            return None if position is None else free.pick(position, size)
        devices: tuple[Device, ...] = ()
        for each, count in _whole(free, size):
            nodes = free.whole(each)[:count]
            if len(nodes) < count:
                return None
            devices += tuple(d for position in nodes for d in free.pick(position, each))
        if rest := size - len(devices):
            left = free.copy()
            left.take(devices)
            position = self.choose(left, rest)
            if position is None:
                return None
            devices += left.pick(position, rest)
        return devices

    def grain(self, size: int, free: FreeDevices) -> int:
        """A node helps if it can hold the job, or the remainder beside whole nodes, or is whole."""
        largest = free.largest
        if size <= largest:
            return size
        if any(count not in (0, largest) for count in free.capacity):
            return 1
        return size % largest or largest


class Consolidate(_OnNodes):
    """The tightest node that has room."""

    choose = staticmethod(FreeDevices.tightest)


class FirstFit(_OnNodes):
    """The first node with room, in the cluster's order: what Muri's simulator calls "yarn"."""

    choose = staticmethod(FreeDevices.first)


class Balance(_OnNodes):
    """The node with the smallest share in use that has room.

    Servers are then loaded alike and none stays empty for long, so that large jobs wait for one.
    """

    choose = staticmethod(FreeDevices.least_used)


class Spread(Placement):
    """One device after another on whichever node has the most free: even load, poor locality."""

    def place(self, free: FreeDevices, size: int) -> tuple[Device, ...] | None:
        if size > free.total:
            return None
        rest = free.copy()
        devices: list[Device] = []
        for _ in range(size):
            position = rest.emptiest()
            assert position is not None, "the total says that there are enough"
            picked = rest.pick(position, 1)
            rest.take(picked)
            devices += picked
        return tuple(devices)


def on_few(free: FreeDevices, size: int) -> tuple[Device, ...] | None:
    """For what is larger than a node, as many nodes as whole ones would be, with enough free; None
    if there are none.

    No placement, since it is not monotone: three and three free devices are room for six, and not
    for the four of one node.
    """
    if not free.largest < size <= free.total:
        return None
    devices = Count().place(free, size)
    nodes = {device.node for device in devices or ()}
    return devices if len(nodes) <= nodes_needed(free, size) else None


def nodes_needed(free: FreeDevices, size: int) -> int:
    """The fewest nodes that could hold so many devices if they were empty."""
    if size <= free.largest:
        return 1
    totals = list(accumulate(sorted(free.capacity, reverse=True)))
    return min(bisect_left(totals, size) + 1, len(totals))


def _whole(free: FreeDevices, size: int) -> list[tuple[int, int]]:
    """How many whole nodes of each size it takes, as on the empty cluster: the largest first.

    So a gang waits for large nodes, and is not spread over small ones because those are free.
    """
    found, rest = list[tuple[int, int]](), size
    for each in sorted({*free.capacity} - {0}, reverse=True):
        there = free.capacity.count(each)
        needed = rest // each if each == free.largest else (rest - 1) // each
        found.append((each, min(needed, there)))
        rest -= each * found[-1][1]
        if needed < there or not rest:
            break
    return found


PLACEMENTS: Mapping[str, type[Placement]] = {
    "count": Count,
    "consolidate": Consolidate,
    "first-fit": FirstFit,
    "balance": Balance,
    "spread": Spread,
}


def placement(name: str) -> Placement:
    """The placement of that name."""
    if name not in PLACEMENTS:
        raise InvalidInputError(
            f"there is no placement {name!r} (there are {', '.join(PLACEMENTS)})"
            f"{did_you_mean(name, PLACEMENTS)}"
        )
    return PLACEMENTS[name]()


class Fit:
    """Whether a size could be placed at all, remembered for the cluster that was asked about."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._cluster: Cluster | None = None
        self._known: dict[int, str | None] = {}

    def never(self, size: int, cluster: Cluster) -> str | None:
        """Why so many devices could not be placed even on the empty cluster, or None."""
        if self._cluster is not cluster:
            self._cluster, self._known = cluster, {}
        if size not in self._known:
            self._known[size] = self._why(size, cluster)
        return self._known[size]

    def _why(self, size: int, cluster: Cluster) -> str | None:
        if size > cluster.device_count:
            return too_large(size, cluster.device_count)
        if self._placement.place(FreeDevices.of(cluster), size) is None:
            return (
                f"it asks for {several(size, 'device')} and this placement finds no room for them "
                f"even on the empty cluster of {several(len(cluster.nodes), 'node')}"
            )
        return None
