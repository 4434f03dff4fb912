"""Which job holds which device in which turn; no device and turn is ever given twice."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Self

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.errors import DoubleBookingError
from treadle.core.free import FreeDevices
from treadle.core.job import JobId


class Tenancy:
    """Claims by device and turn, and the devices without any."""

    __slots__ = ("_tenants", "free", "sharing", "tenants")

    def __init__(self, cluster: Cluster) -> None:
        self.free = FreeDevices.of(cluster)
        self.sharing = (
            0  # claims of turns other than the first: while there are none, no job shares
        )
        self._tenants: dict[Device, dict[int, JobId]] = {}
        self.tenants: Mapping[Device, Mapping[int, JobId]] = MappingProxyType(self._tenants)

    def copy(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.free, twin.sharing = self.free.copy(), self.sharing
        twin._tenants = {device: turns.copy() for device, turns in self._tenants.items()}
        twin.tenants = MappingProxyType(twin._tenants)
        return twin

    def add(self, node: Node) -> None:
        """Let a node be used; what jobs hold there, after a drain, stays theirs."""
        self.free.add(node)
        held = [d for d in self._tenants if d.node == node.name and d.number < node.device_count]
        if held:
            self.free.take(held)

    def claim(self, job: JobId, allocation: Allocation) -> None:
        """Book the devices; a paused job has none."""
        if allocation.paused:
            return
        tenants, turn, devices = self._tenants, allocation.turn, allocation.devices
        if tenants.keys().isdisjoint(devices):  # As most of the time.
            for device in devices:
                tenants[device] = {turn: job}
            self.free.take(devices)
            self.sharing += turn > 0
            return
        taken = []
        for device in devices:
            turns = tenants.get(device)
            if turns is None:
                tenants[device] = {turn: job}
                taken.append(device)
            elif turn in turns:
                raise DoubleBookingError(double_booking(device, turn, turns[turn], job))
            else:
                turns[turn] = job
        if taken:
            self.free.take(taken)
        if turn:
            self.sharing += 1

    def release(self, allocation: Allocation) -> None:
        if allocation.paused:
            return
        tenants, turn = self._tenants, allocation.turn
        if not self.sharing:
            for device in allocation.devices:
                del tenants[device]
            self.free.give(allocation.devices)
            return
        given = []
        for device in allocation.devices:
            turns = tenants[device]
            del turns[turn]
            if not turns:
                del tenants[device]
                given.append(device)
        if given:
            self.free.give(given)
        if turn:
            self.sharing -= 1

    def ring(self, job: JobId, allocation: Allocation) -> frozenset[JobId]:
        """The other jobs that share a device with this one."""
        return frozenset(self._sharers(allocation)) - {job}

    def _sharers(self, allocation: Allocation) -> Iterable[JobId]:
        for device in allocation.devices:
            yield from self._tenants.get(device, {}).values()


def double_booking(device: Device, turn: int, holder: JobId, asker: JobId) -> str:
    return f"device {device} turn {turn} is held by job {holder} and was also given to job {asker}"
