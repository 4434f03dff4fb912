"""Which devices of a node may be used, and why the others are closed.

A device is closed while it is left out by the options of `treadle up`, while an admin avoids it,
while a process that is not ours computes on it, and while its driver does not answer. All of them
are closed while the machine cannot launch jobs. A device that is not clean after a job is
quarantined until an admin opens it again. While a process of a job that was stopped cannot be
killed, its devices are closed as well. The watch reports every change as a fact with its cause and
its reason.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from treadle.core.cluster import Device
from treadle.core.events import DeviceClosed, DeviceOpened
from treadle.core.machine import DeviceView, ProcessView
from treadle.core.ports import Clock
from treadle.engines.node import processes
from treadle.engines.node.devices import DeviceProcess, DeviceSource, Sight
from treadle.engines.node.environment import TAG

LOOK_EVERY_S = 5.0
CLEAN_WITHIN_S = 30.0  # a driver takes a while to free memory
LEAK_GIB = 1.0  # above the least memory ever seen in use: a process still holds some
UNSEEN_S = 4.0  # a pid that is listed and not in /proc for so long belongs to another container
SEEN_MAX = 4096  # pids of ours that are remembered

AVOIDED, QUARANTINED, EXCLUDED = "avoided", "quarantined", "excluded"
FOREIGN, UNSEEN, MACHINE, STUCK = "foreign", "unseen", "machine", "stuck"

Report = Callable[[DeviceClosed | DeviceOpened], None]


class Closure(NamedTuple):
    """Why a device is closed."""

    cause: str
    reason: str


class Ours(NamedTuple):
    """What belongs to us at the moment of a look."""

    supervisors: frozenset[int]  # pids
    held: frozenset[int]  # numbers of devices
    now: float


class DeviceWatch:
    """Watches the devices of one node."""

    def __init__(
        self,
        source: DeviceSource,
        node: str,
        *,
        instance: str,
        clock: Clock,
        report: Report,
        excluded: Collection[int] = (),
    ) -> None:
        self._source = source
        self._node = node
        self._mark = f"{TAG}={instance}-".encode()
        self._clock = clock
        self._report = report
        self._sights = tuple(
            Sight(number=number, uuid=uuid) for number, uuid in enumerate(source.uuids)
        )
        self._foreign: dict[int, tuple[ProcessView, ...]] = {}
        # Closed by the options or by an admin, and closed because it was not clean.
        self._avoided: dict[int, Closure] = {
            number: Closure(EXCLUDED, f"the options of treadle up exclude {self._name(number)}")
            for number in excluded
        }
        self._quarantined: dict[int, str] = {}
        self._paused = ""  # why the machine cannot launch anything
        self._stuck: dict[int, str] = {}  # a process of a job that ended cannot be killed
        self._reported: dict[int, Closure] = {}  # closures that the controller knows
        self._looked = not source.watched  # whether foreign processes could have been seen
        self._rest_gib: dict[int, float] = {}  # least memory in use that was ever seen
        self._ours: set[int] = set()  # pids that were seen to be ours
        # (device, pid) that /proc does not know, and the time at which it was seen first.
        self._unseen: dict[tuple[int, int], float] = {}
        self._looking = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        # Set by the engine: pids of live supervisors, and numbers of devices that attempts hold.
        self.supervisors: Callable[[], Collection[int]] = tuple
        self.held: Callable[[], Collection[int]] = tuple

    # -- orders ---------------------------------------------------------------------------------

    def avoid(self, number: int) -> None:
        """Start nothing new on it; what runs there runs on."""
        self._avoided[number] = Closure(AVOIDED, f"an admin avoids {self._name(number)}")
        self._report_changes()

    def manage(self, number: int) -> None:
        """Use it again, also if it was quarantined."""
        self._avoided.pop(number, None)
        self._quarantined.pop(number, None)
        self._report_changes()

    def quarantine(self, number: int, reason: str) -> None:
        self._quarantined[number] = reason
        self._report_changes()

    def pause(self, reason: str) -> None:
        """Close all devices for that reason; an empty one opens them again."""
        self._paused = reason
        self._report_changes()

    def block(self, number: int, reason: str) -> None:
        """Close it for as long as a process of a job that should be over does not die."""
        self._stuck[number] = reason
        self._report_changes()

    def unblock(self, number: int) -> None:
        if self._stuck.pop(number, None) is not None:
            self._report_changes()

    def is_blocked(self, number: int) -> bool:
        return number in self._stuck

    def restore(self, closed: Mapping[Device, DeviceClosed]) -> None:
        """Take over what the controller knew to be closed before a restart."""
        for device, closure in closed.items():
            number = device.number
            if device.node != self._node or number >= len(self._sights):
                continue
            self._reported[number] = Closure(closure.cause, closure.reason)
            if closure.cause == AVOIDED:
                self._avoided[number] = Closure(AVOIDED, closure.reason)
            elif closure.cause == QUARANTINED:
                self._quarantined[number] = closure.reason

    # -- looking --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Report what is closed from the start, and poll the devices if others can use them."""
        self._report_changes()
        if self._source.watched and self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._poll(), name="devices")

    async def close(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
            self._poller = None

    async def _poll(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:  # a driver may raise anything, and the next look may succeed
                logging.getLogger(__name__).exception("the devices could not be read")
            await self._clock.sleep_until(self._clock.now() + LOOK_EVERY_S)

    async def look(self) -> None:
        """Read the devices now."""
        async with self._looking:
            ours = Ours(frozenset(self.supervisors()), frozenset(self.held()), self._clock.now())
            self._sights, self._foreign = await asyncio.to_thread(self._look_now, ours)
        self._looked = True
        for sight in self._sights:
            if sight.memory_used_gib is not None and not sight.error:
                rest = self._rest_gib.get(sight.number, sight.memory_used_gib)
                self._rest_gib[sight.number] = min(rest, sight.memory_used_gib)
        self._report_changes()

    def _look_now(self, ours: Ours) -> tuple[tuple[Sight, ...], dict[int, tuple[ProcessView, ...]]]:
        sights = self._source.look()
        there = {(sight.number, each.pid) for sight in sights for each in sight.processes}
        self._unseen = {key: since for key, since in self._unseen.items() if key in there}
        foreign = {}
        for sight in sights:
            found = tuple(
                ProcessView(
                    pid=process.pid,
                    user=processes.user_of(process.pid),
                    memory_gib=process.memory_gib,
                    command=processes.command_of(process.pid),
                )
                for process in sight.processes
                if self._is_foreign(process, sight.number, ours)
            )
            if found:
                foreign[sight.number] = found
        return sights, foreign

    def _is_foreign(self, process: DeviceProcess, number: int, ours: Ours) -> bool:
        pid = process.pid
        if processes.start_of(pid) is None:
            # It has just ended, or it runs in another container under another pid. On a device
            # that a job of ours holds we take it for that job's.
            since_at = self._unseen.setdefault((number, pid), ours.now)
            lasting = ours.now - since_at >= UNSEEN_S
            return lasting and number not in ours.held and pid not in self._ours
        if self._mark in processes.environment_of(pid) or processes.descends_from(
            pid, ours.supervisors
        ):
            if len(self._ours) < SEEN_MAX:
                self._ours.add(pid)
            return False
        self._ours.discard(pid)
        return True

    # -- what may be used -----------------------------------------------------------------------

    async def objection(self, numbers: Iterable[int]) -> str:
        """Why nothing may be launched on these devices now; empty if it may."""
        if self._source.watched:
            await self.look()
        closures = (self._closure(number) for number in numbers)
        return next((closure.reason for closure in closures if closure is not None), "")

    async def clean(self, numbers: Collection[int], tag: str, *, job: str) -> None:
        """Return once a job that ended is gone from its devices; quarantine them if it stays."""
        if not self._source.watched:
            return
        give_up_at = self._clock.now() + CLEAN_WITHIN_S
        pause_s = 0.02
        while True:
            await self.look()
            # What a process says of its environment may have to wait for its memory.
            left = await asyncio.to_thread(self._leftovers, numbers, tag, job)
            if not left:
                return
            if self._clock.now() >= give_up_at:
                break
            await self._clock.sleep_until(self._clock.now() + pause_s)
            pause_s = min(2.0, pause_s * 2)
        for number, why in left.items():
            self.quarantine(number, why)

    def _leftovers(self, numbers: Iterable[int], tag: str, job: str) -> dict[int, str]:
        known = [number for number in numbers if number < len(self._sights)]
        return {number: why for number in known if (why := self._leftover(number, tag, job))}

    def _leftover(self, number: int, tag: str, job: str) -> str:
        """What a job left on a device, in a sentence; empty if nothing."""
        sight = self._sights[number]
        wanted = f"{TAG}={tag}\0".encode()
        for process in sight.processes:
            if wanted in processes.environment_of(process.pid) + b"\0":
                return (
                    f"process {process.pid} of job {job}, which has ended, is still on "
                    f"{self._name(number)}; end it, then open the device again"
                )
        used, rest = sight.memory_used_gib, self._rest_gib.get(number, 0.0)
        if used is None or sight.processes or number in self.held():
            return ""  # Other processes use the device: the memory may be theirs.
        if used > rest + LEAK_GIB:
            return (
                f"{self._name(number)} still has {used:.1f} GiB in use after job {job} ended, and "
                f"{rest:.1f} GiB at rest; look at nvidia-smi, then open the device again"
            )
        return ""

    def _closure(self, number: int) -> Closure | None:
        """Why a device is closed; None if it is open."""
        if number in self._avoided:
            return self._avoided[number]
        if number in self._quarantined:
            return Closure(QUARANTINED, self._quarantined[number])
        if self._paused:
            return Closure(MACHINE, self._paused)
        if number in self._stuck:
            return Closure(STUCK, self._stuck[number])
        if error := self._sights[number].error:
            return Closure(UNSEEN, f"{self._name(number)} cannot be seen: {error}")
        if others := self._foreign.get(number):
            first = others[0]
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            whose = f" of {first.user}" if first.user else ""
            return Closure(FOREIGN, f"process {first.pid}{whose}{more} is on {self._name(number)}")
        return None

    def _report_changes(self) -> None:
        """Report the devices that were closed or opened since the last report."""
        for number in range(len(self._sights)):
            closure, reported = self._closure(number), self._reported.get(number)
            if closure == reported:
                continue
            device = Device(self._node, number)
            if closure is not None:
                self._reported[number] = closure
                self._report(DeviceClosed(device, closure.reason, closure.cause))
            elif self._looked:  # Before the first look a foreign process may still be there.
                del self._reported[number]
                self._report(DeviceOpened(device))

    def _name(self, number: int) -> str:
        return f"device {self._node}:{number}"

    # -- views ----------------------------------------------------------------------------------

    def view(self, number: int) -> DeviceView:
        """As it is without jobs."""
        sight, closure = self._sights[number], self._closure(number)
        state = "free"
        for name, where in (
            ("avoided", number in self._avoided),
            ("quarantined", number in self._quarantined or sight.error),
            ("paused", self._paused),
            ("foreign", number in self._foreign),
        ):
            if where:
                state = name
                break
        return DeviceView(
            name=str(Device(self._node, number)),
            number=number,
            uuid=sight.uuid,
            model=sight.model,
            state=state,
            because="" if closure is None else closure.reason,
            memory_gib=sight.memory_gib,
            memory_used_gib=sight.memory_used_gib,
            busy=sight.busy,
            foreign=self._foreign.get(number, ()),
        )
