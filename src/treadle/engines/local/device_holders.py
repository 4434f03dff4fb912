"""Which attempt holds which turn of which device of the node."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from treadle.core.allocation import Allocation
from treadle.engines.local.live_attempt import LiveAttempt
from treadle.engines.node.device_watch import DeviceWatch


class DeviceHolders:
    """Attempts by device and turn, until they have released them."""

    def __init__(self, watch: DeviceWatch, wake: Callable[[], None]) -> None:
        """wake: called when a device was released, or will not be for a long time."""
        self._watch = watch
        self._wake = wake
        self._holders: dict[tuple[int, int], LiveAttempt] = {}
        self.by_slot: Mapping[tuple[int, int], LiveAttempt] = MappingProxyType(self._holders)

    def hold(self, live: LiveAttempt) -> None:
        for slot in live.slots:
            self._holders[slot] = live

    def free(self, live: LiveAttempt) -> None:
        live.released = True
        for number, _ in live.slots:
            self._watch.unblock(number)
        for slot in live.slots:
            if self._holders.get(slot) is live:
                del self._holders[slot]
        self._wake()

    def undying(self, live: LiveAttempt) -> None:
        """A process of it cannot be killed: no other job may wait for its devices."""
        for number, _ in live.slots:
            self._watch.block(number, live.stuck)
        self._wake()

    def of(self, allocation: Allocation) -> list[LiveAttempt]:
        """The attempts that hold these devices in this turn."""
        slots = ((device.number, allocation.turn) for device in allocation.devices)
        return [self._holders[slot] for slot in slots if slot in self._holders]

    def numbers(self) -> set[int]:
        """The devices of attempts that have not ended."""
        return {number for (number, _), live in self._holders.items() if not live.over}

    def are_stuck(self, allocation: Allocation) -> bool:
        """Whether a process that cannot be killed is on one of these devices."""
        return any(self._watch.is_blocked(device.number) for device in allocation.devices)
