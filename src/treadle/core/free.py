"""The free devices, kept up to date device by device and cheap to copy.

Rebuilding a list of free devices at every decision was half the time of an early prototype. Here a
node is an integer whose bits are its free devices, and nodes stand in lists by how many bits they
have: the questions that placements ask ("the fullest node with room for four") take a few steps
whatever the size of the cluster, and a policy that plans an eviction copies the whole in a few
microseconds.
"""

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Self

from treadle.core.cluster import Cluster, Device, Node


class FreeDevices:
    """Devices that no job holds. Nodes are known by position: their order in the cluster."""

    __slots__ = (
        "_by_count",
        "_devices",
        "_empty",
        "_known",
        "_late",
        "_masks",
        "_position",
        "_withheld",
        "capacity",
        "largest",
        "total",
    )

    def __init__(self) -> None:
        self.total = 0
        self.largest = 0  # the most devices any one node has
        self.capacity: list[int] = []  # devices a node has; 0 once it is lost or drained
        self._position: dict[str, int] = {}
        self._devices: list[tuple[Device, ...]] = []
        self._masks: list[int] = []
        self._by_count: list[list[int]] = [[]]  # [k] = positions with k free, ascending
        self._known: frozenset[Device] | None = None  # all devices in use; None: to be gathered
        self._withheld: Mapping[int, int] = {}  # position -> bits that are given to no job
        self._late: Mapping[int, int] = {}  # position -> bits that a stopped job has yet to leave
        # Masks, positions by count and the total when no job holds anything; None: to be made.
        self._empty: tuple[list[int], list[list[int]], int] | None = None

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        free, nodes = cls(), cluster.nodes  # Not one `add` after another, which copies tables.
        free.capacity = [node.device_count for node in nodes]
        free.largest = max(free.capacity, default=0)
        free._position = {node.name: position for position, node in enumerate(nodes)}
        free._devices = [_all_of(node) for node in nodes]
        free._by_count = [[] for _ in range(free.largest + 1)]
        free._masks, free._by_count, free.total = free._made_empty()
        return free

    def copy(self) -> Self:
        """An independent copy; the tables that only change with the cluster are shared."""
        twin = type(self).__new__(type(self))
        twin.total = self.total
        twin.largest = self.largest
        twin.capacity = self.capacity
        twin._position = self._position
        twin._devices = self._devices
        twin._known = self._known
        twin._withheld = self._withheld
        twin._late = self._late
        twin._empty = self._empty
        twin._masks = self._masks.copy()
        twin._by_count = [positions.copy() for positions in self._by_count]
        return twin

    def most_on_a_node(self) -> int:
        """The most devices that are free on one node."""
        count = len(self._by_count) - 1
        while count and not self._by_count[count]:
            count -= 1
        return count

    def emptied(self) -> Self:
        """A copy in which no job holds anything."""
        if self._empty is None:
            self._empty = self._made_empty()
        masks, by_count, total = self._empty
        twin = self.copy()
        twin._masks = masks.copy()
        twin._by_count = [positions.copy() for positions in by_count]
        twin.total = total
        return twin

    def _made_empty(self) -> tuple[list[int], list[list[int]], int]:
        masks = [(1 << count) - 1 for count in self.capacity]
        for position, bits in self._withheld.items():
            masks[position] &= ~bits
        by_count: list[list[int]] = [[] for _ in self._by_count]
        for position, mask in enumerate(masks):
            by_count[mask.bit_count()].append(position)
        return masks, by_count, sum(mask.bit_count() for mask in masks)

    def withholding(self, devices: Sequence[Device]) -> Self:
        """A copy that never gives these out, held or free, not even after `emptied`."""
        twin = self.copy()
        if devices:
            withheld = dict(self._withheld)
            for position, bits in self._by_node(devices):
                withheld[position] = withheld.get(position, 0) | bits
                mask = self._masks[position]
                twin._move(position, mask, mask & ~bits)
            twin._withheld, twin._empty = withheld, None
        return twin

    def withholding_held(self, count: int) -> Self | None:
        """The same of all devices that are held now; None if they are not just so many."""
        withheld = dict(self._withheld)
        for position, mask in enumerate(self._masks):
            held = ((1 << self.capacity[position]) - 1) & ~(mask | withheld.get(position, 0))
            if held:
                withheld[position] = withheld.get(position, 0) | held
                count -= held.bit_count()
        if count:
            return None
        twin = self.copy()
        twin._withheld, twin._empty = withheld, None
        return twin

    def only(self, nodes: Container[str]) -> Self:
        """A copy that knows these nodes alone, as if the others were gone."""
        twin = self.copy()
        for name, position in self._position.items():
            if name not in nodes and self.capacity[position]:
                if twin.capacity is self.capacity:
                    twin.capacity = [*self.capacity]
                twin.capacity[position] = 0
                twin._move(position, twin._masks[position], 0)
        twin.largest = max(twin.capacity, default=0)
        twin._known = twin._empty = None
        return twin

    def leaving(self, devices: Sequence[Device]) -> Self:
        """A copy that gives these out last on their node: a stopped job has yet to leave them.

        A job that is given one of them waits until it is left, which may take the whole grace of
        the job that was stopped.
        """
        twin = self.copy()
        known = [device for device in devices if device.node in self._position]
        twin._late = dict(self._by_node(known)) if known else {}
        return twin

    # -- questions ------------------------------------------------------------------------------

    def count(self, position: int) -> int:
        """How many devices of that node are free."""
        return self._masks[position].bit_count()

    def count_on(self, node: str) -> int:
        """How many devices are free on the node of that name."""
        return self._masks[self._position[node]].bit_count()

    def holds(self, devices: Iterable[Device]) -> bool:
        """Whether all of these are free."""
        position, masks = self._position, self._masks
        return all(masks[position[d.node]] >> d.number & 1 for d in devices)

    def knows(self, devices: Iterable[Device]) -> bool:
        """Whether all of these, free or held, are on nodes in use."""
        if self._known is None:
            nodes = zip(self._devices, self.capacity, strict=True)
            self._known = frozenset(d for devices, count in nodes if count for d in devices)
        return self._known.issuperset(devices)

    def tightest(self, size: int) -> int | None:
        """The node with the fewest free devices that still has room; the first of equals."""
        for positions in self._by_count[size:]:
            if positions:
                return positions[0]
        return None

    def first(self, size: int) -> int | None:
        """The first node in the cluster's order that has room."""
        heads = [positions[0] for positions in self._by_count[size:] if positions]
        return min(heads) if heads else None

    def emptiest(self) -> int | None:
        """The node with the most free devices; the first of equals."""
        for count in range(len(self._by_count) - 1, 0, -1):
            if self._by_count[count]:
                return self._by_count[count][0]
        return None

    def least_used(self, size: int) -> int | None:
        """The node with the smallest share of its devices held that has room; first of equals."""
        capacity = self.capacity
        smallest = [  # Of those with as many free, the smallest node has the most of it free.
            (min(positions, key=capacity.__getitem__), count)
            for count, positions in enumerate(self._by_count[size:], size)
            if positions
        ]
        found = min(smallest, key=lambda node: (-node[1] / capacity[node[0]], node), default=None)
        return None if found is None else found[0]

    def whole(self, devices_each: int) -> Sequence[int]:
        """Nodes of exactly that many devices with every one of them free."""
        if devices_each >= len(self._by_count):
            return ()
        capacity = self.capacity
        return [p for p in self._by_count[devices_each] if capacity[p] == devices_each]

    def pick(self, position: int, size: int) -> tuple[Device, ...]:
        """The lowest-numbered free devices of a node that has enough; those being left last."""
        mask, devices = self._masks[position], self._devices[position]
        if mask == (1 << size) - 1:
            return devices[:size]
        if (late := self._late.get(position, 0) & mask) and late != mask:
            idle = mask & ~late
            if (count := idle.bit_count()) >= size:
                return _lowest(devices, idle, size)
            return _lowest(devices, idle, count) + _lowest(devices, late, size - count)
        return _lowest(devices, mask, size)

    def pick_on(self, node: str, size: int) -> tuple[Device, ...]:
        """The same of the node of that name."""
        return self.pick(self._position[node], size)

    def __iter__(self) -> Iterator[Device]:
        for position in range(len(self._masks)):
            yield from self.pick(position, self.count(position))

    # -- changes --------------------------------------------------------------------------------

    def take(self, devices: Sequence[Device]) -> None:
        """Mark as held; every one of them must be free, or on a node that is gone."""
        for position, bits in self._by_node(devices):
            mask = self._masks[position]
            assert mask & bits == bits or not self.capacity[position], (
                "a device that is not free was taken"
            )
            self._move(position, mask, mask & ~bits)

    def claim(self, devices: Sequence[Device]) -> bool:
        """Take all of these if all are free, else none; whether they were."""
        wanted = self._by_node(devices)
        masks = self._masks
        for position, bits in wanted:
            if masks[position] & bits != bits:
                return False
        for position, bits in wanted:
            self._move(position, masks[position], masks[position] & ~bits)
        return True

    def give(self, devices: Sequence[Device]) -> None:
        """Mark as free again; devices of a node that is gone stay gone."""
        for position, bits in self._by_node(devices):
            if self.capacity[position]:
                mask = self._masks[position]
                assert mask & bits == 0, "a device that is already free was given back"
                self._move(position, mask, mask | bits)

    def add(self, node: Node) -> None:
        """Let a node be used, with all its devices free."""
        # Copies share these tables, so they are replaced and not changed in place.
        position = self._position.get(node.name)
        devices = _all_of(node)
        if position is None:
            position = len(self._masks)
            self._position = {**self._position, node.name: position}
            self._masks.append(0)
            self._devices = [*self._devices, devices]
            self.capacity = [*self.capacity, node.device_count]
            insort(self._by_count[0], position)
        else:
            self._devices = [*self._devices]
            self._devices[position] = devices
            self.capacity = [*self.capacity]
            self.capacity[position] = node.device_count
        self.largest = max(self.capacity)
        self._known = self._empty = None
        self._by_count += [[] for _ in range(node.device_count + 1 - len(self._by_count))]
        self._move(position, self._masks[position], (1 << node.device_count) - 1)

    def remove(self, name: str) -> None:
        """Use a node no more: its free devices vanish, held ones vanish when given back."""
        position = self._position.get(name)
        if position is None:
            return  # It was never here.
        self.capacity = [*self.capacity]
        self.capacity[position] = 0
        self.largest = max(self.capacity)
        self._known = self._empty = None
        self._move(position, self._masks[position], 0)

    def _by_node(self, devices: Sequence[Device]) -> Sequence[tuple[int, int]]:
        """The devices as one bit pattern for each node they are on."""
        first, together = devices[0].node, 0
        for node, number in devices:
            if node != first:
                break
            together |= 1 << number
        else:  # All on one node, as most are.
            return ((self._position[first], together),)
        bits: dict[str, int] = {}
        for node, number in devices:
            bits[node] = bits.get(node, 0) | 1 << number
        return [(self._position[node], pattern) for node, pattern in bits.items()]

    def _move(self, position: int, before: int, after: int) -> None:
        old, new = before.bit_count(), after.bit_count()
        self._masks[position] = after
        if old != new:
            positions = self._by_count[old]
            del positions[bisect_left(positions, position)]
            insort(self._by_count[new], position)
            self.total += new - old


def _all_of(node: Node) -> tuple[Device, ...]:
    return tuple(Device(node.name, number) for number in range(node.device_count))


def _lowest(devices: Sequence[Device], mask: int, size: int) -> tuple[Device, ...]:
    """The lowest-numbered devices of the mask."""
    picked: list[Device] = []
    while len(picked) < size:
        low = mask & -mask
        picked.append(devices[low.bit_length() - 1])
        mask ^= low
    return tuple(picked)
