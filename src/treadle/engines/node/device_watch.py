"""Which devices may be used: whoever else is on them is seen, and what is not clean is shut.

A device is shut while an admin has it avoided, while somebody else's process computes on it, while
its driver does not answer, and from the moment that it was found unclean after a job until an admin
opens it again. Every change is told to the controller with its reason.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from treadle.core.cluster import Device
from treadle.core.machine import DeviceView, ProcessView
from treadle.core.ports import Clock
from treadle.engines.node import processes
from treadle.engines.node.devices import DeviceProcess, DeviceSource, Sight
from treadle.engines.node.environment import TAG

LOOK_EVERY_S = 5.0
CLEAN_WITHIN_S = 30.0  # a driver takes a while to give memory back
LEAK_GIB = 1.0  # above what a device was ever seen to use at rest: somebody holds on to it
UNSEEN_S = 4.0  # a process that is listed and not to be found for so long is somebody else's
SEEN_MAX = 4096  # pids of ours that are remembered

OnDevice = Callable[[Device, bool, str], None]


class Ours(NamedTuple):
    """What is ours at the moment of a look."""

    supervisors: frozenset[int]  # pids
    held: frozenset[int]  # numbers of devices
    now: float


class Upkeep:
    """Looks after the devices of one node."""

    def __init__(
        self, source: DeviceSource, node: str, *, instance: str, clock: Clock, on_device: OnDevice
    ) -> None:
        self._source = source
        self._node = node
        self._mark = f"{TAG}={instance}-".encode()
        self._clock = clock
        self._on_device = on_device
        self._sights = tuple(
            Sight(number=number, uuid=uuid) for number, uuid in enumerate(source.uuids)
        )
        self._foreign: dict[int, tuple[ProcessView, ...]] = {}
        self._avoided: dict[int, str] = {}
        self._quarantined: dict[int, str] = {}
        self._shut: dict[int, str] = {}  # as the controller was told
        self._rest_gib: dict[int, float] = {}  # least memory in use that was ever seen
        self._ours: set[int] = set()  # pids that were seen to be ours
        # (device, pid) that /proc does not know, and since when it has been seen.
        self._unseen: dict[tuple[int, int], float] = {}
        self._looking = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        # Pids of supervisors that are alive, and numbers of devices that they hold.
        self.supervisors: Callable[[], Collection[int]] = tuple
        self.held: Callable[[], Collection[int]] = tuple

    # -- orders of an admin ---------------------------------------------------------------------

    def avoid(self, number: int, reason: str = "") -> None:
        """Start nothing on it any more; what runs there runs on."""
        self._avoided[number] = reason or f"an admin has {self._name(number)} avoided"
        self._tell()

    def manage(self, number: int) -> None:
        """Use it again; what was found unclean counts as clean."""
        self._avoided.pop(number, None)
        self._quarantined.pop(number, None)
        self._tell()

    def quarantine(self, number: int, reason: str) -> None:
        self._quarantined[number] = reason
        self._tell()

    @property
    def shut(self) -> Mapping[int, str]:
        """Devices that may not be used now, and why."""
        return self._shut

    def orders(self) -> dict[str, dict[int, str]]:
        """What stays shut until an admin opens it, with reasons: to be kept over a restart."""
        return {"avoided": dict(self._avoided), "quarantined": dict(self._quarantined)}

    # -- looking --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Look every few seconds from now on, if there is anything to see."""
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
            except Exception:  # whatever a driver does, the next look may be better
                logging.getLogger(__name__).exception("the devices could not be looked at")
            await self._clock.sleep_until(self._clock.now() + LOOK_EVERY_S)

    async def look(self) -> None:
        """See the devices as they are now."""
        async with self._looking:
            ours = Ours(frozenset(self.supervisors()), frozenset(self.held()), self._clock.now())
            self._sights, self._foreign = await asyncio.to_thread(self._look_now, ours)
        for sight in self._sights:
            if sight.memory_used_gib is not None and not sight.error:
                rest = self._rest_gib.get(sight.number, sight.memory_used_gib)
                self._rest_gib[sight.number] = min(rest, sight.memory_used_gib)
        self._tell()

    def _look_now(
        self, ours: "Ours"
    ) -> tuple[tuple[Sight, ...], dict[int, tuple[ProcessView, ...]]]:
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

    def _is_foreign(self, process: DeviceProcess, number: int, ours: "Ours") -> bool:
        pid = process.pid
        if processes.start_of(pid) is None:
            # It has just ended, or lives behind a wall where its number is another. Then nobody
            # can tell; on a device that a job of ours holds it is taken to be that job's.
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

    # -- who may use what -----------------------------------------------------------------------

    async def objection(self, numbers: Iterable[int]) -> str:
        """Why nothing may be launched on these devices right now; empty if it may."""
        if self._source.watched:
            await self.look()
        return next((self._shut[number] for number in numbers if number in self._shut), "")

    async def clean(self, numbers: Collection[int], tag: str, *, job: str) -> None:
        """Return once a job that ended is gone from its devices; quarantine them if it stays."""
        if not self._source.watched:
            return
        give_up_at = self._clock.now() + CLEAN_WITHIN_S
        pause_s = 0.02
        while True:
            await self.look()
            known = [number for number in numbers if number < len(self._sights)]
            left = {number: why for number in known if (why := self._leftover(number, tag, job))}
            if not left:
                return
            if self._clock.now() >= give_up_at:
                break
            await self._clock.sleep_until(self._clock.now() + pause_s)
            pause_s = min(2.0, pause_s * 2)
        for number, why in left.items():
            self.quarantine(number, why)

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
            return ""  # Others are on it: whose the memory is cannot be told.
        if used > rest + LEAK_GIB:
            return (
                f"{self._name(number)} still has {used:.1f} GiB in use after job {job} ended, and "
                f"{rest:.1f} GiB at rest; look at nvidia-smi, then open the device again"
            )
        return ""

    def _reason(self, number: int) -> str:
        """Why a device is shut; empty if it is open."""
        if number in self._avoided:
            return self._avoided[number]
        if number in self._quarantined:
            return self._quarantined[number]
        if error := self._sights[number].error:
            return f"{self._name(number)} cannot be seen: {error}"
        if others := self._foreign.get(number):
            first = others[0]
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            whose = f" of {first.user}" if first.user else ""
            return f"process {first.pid}{whose}{more} is on {self._name(number)}"
        return ""

    def _tell(self) -> None:
        """Tell the controller what has changed."""
        for number in range(len(self._sights)):
            reason, told = self._reason(number), self._shut.get(number, "")
            if reason == told:
                continue
            if reason:
                self._shut[number] = reason
            else:
                del self._shut[number]
            self._on_device(Device(self._node, number), not reason, reason)

    def _name(self, number: int) -> str:
        return f"device {self._node}:{number}"

    # -- views ----------------------------------------------------------------------------------

    def view(self, number: int, jobs: tuple[str, ...]) -> DeviceView:
        sight = self._sights[number]
        state = "free"
        for name, where in (
            ("held", jobs),
            ("avoided", number in self._avoided),
            ("quarantined", number in self._quarantined or sight.error),
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
            because=self._reason(number),
            jobs=jobs,
            memory_gib=sight.memory_gib,
            memory_used_gib=sight.memory_used_gib,
            busy=sight.busy,
            foreign=self._foreign.get(number, ()),
        )
