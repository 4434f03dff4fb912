"""Which attempt holds which turn of which device of the node."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from treadle.core.allocation import Allocation
from treadle.engines.agent.live_attempt import LiveAttempt, slots_of
from treadle.engines.node.device_watch import DeviceWatch

Slot = tuple[int, int]  # number of the device, turn
Key = TypeVar("Key")


class DeviceHolders:
    """Attempts by device and turn, until they have released them."""

    def __init__(self, watch: DeviceWatch, wake: Callable[[], None]) -> None:
        """wake: called when a device was released, or will not be for a long time."""
        self._watch = watch
        self._wake = wake
        # The first is the one that people see. Others are what a restart found there as well.
        self._holders: dict[Slot, list[LiveAttempt]] = {}
        self._parked: list[LiveAttempt] = []  # paused ones, which hold no turn
        self._blocking: dict[int, list[LiveAttempt]] = {}  # by device; they do not die

    @property
    def by_slot(self) -> dict[Slot, LiveAttempt]:
        return {slot: lives[0] for slot, lives in self._holders.items()}

    def hold(self, live: LiveAttempt) -> None:
        for slot in live.slots:
            _add(self._holders, slot, live)
        self._park(live)

    def park(self, live: LiveAttempt, allocation: Allocation) -> None:
        """It is paused as this allocation says, or is no more: what it holds of it from now on."""
        before = live.slots
        live.allocation, live.more = allocation, frozenset()
        self.drop(live, set(before) - set(live.slots))
        self.hold(live)

    def keep(self, live: LiveAttempt, allocation: Allocation) -> None:
        """It is to go on there: nothing else may begin meanwhile."""
        live.more = frozenset({*live.more, *slots_of(allocation)})
        self.hold(live)

    def _park(self, live: LiveAttempt) -> None:
        if live in self._parked:
            self._parked.remove(live)
        if live.allocation is not None and live.allocation.paused:
            self._parked.append(live)

    def drop(self, live: LiveAttempt, slots: Iterable[Slot]) -> None:
        """Release some of what a running attempt holds."""
        for slot in slots:
            _remove(self._holders, slot, live)
        self._wake()

    def free(self, live: LiveAttempt) -> None:
        if live in self._parked:
            self._parked.remove(live)
        for slot in live.slots:
            _remove(self._holders, slot, live)
        for number in live.numbers:
            if not _remove(self._blocking, number, live):
                continue
            if left := self._blocking.get(number):
                self._watch.block(number, left[0].stuck)
            else:
                self._watch.unblock(number)
        self._wake()

    def undying(self, live: LiveAttempt) -> None:
        """A process of it cannot be killed: no other job may wait for its devices."""
        for number in live.numbers:
            _add(self._blocking, number, live)
            self._watch.block(number, live.stuck)
        self._wake()

    def of(self, allocation: Allocation) -> list[LiveAttempt]:
        """The attempts that hold these devices in this turn."""
        slots = ((device.number, allocation.turn) for device in allocation.devices)
        return [live for slot in slots for live in self._holders.get(slot, ())]

    def numbers(self) -> set[int]:
        """The devices of attempts that have not ended."""
        lives = [*self._parked, *(live for found in self._holders.values() for live in found)]
        return {number for live in lives if not live.over for number in live.numbers}

    def are_stuck(self, allocation: Allocation) -> bool:
        """Whether a process that cannot be killed is on one of these devices."""
        return any(self._watch.is_blocked(device.number) for device in allocation.devices)


def _add(lives: dict[Key, list[LiveAttempt]], key: Key, live: LiveAttempt) -> None:
    listed = lives.setdefault(key, [])
    if live not in listed:
        listed.append(live)


def _remove(lives: dict[Key, list[LiveAttempt]], key: Key, live: LiveAttempt) -> bool:
    """Take the attempt out of that list; whether it was there."""
    listed = lives.get(key, [])
    if live not in listed:
        return False
    listed.remove(live)
    if not listed:
        del lives[key]
    return True
