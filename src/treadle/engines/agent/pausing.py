"""Pauses of an attempt that runs: its supervisor is told what is wanted, and says what it reached.

What a pause cannot be for is found out before the supervisor is asked: no such driver, a client of
MPS, too little memory on the host.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from treadle.core.allocation import Allocation, Pause
from treadle.core.cluster import CPU
from treadle.engines.agent.device_holders import DeviceHolders
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.node import cuda_suspend
from treadle.engines.node.devices import DeviceSource
from treadle.engines.node.mps import Mps
from treadle.engines.node.pause_files import WANTED, write
from treadle.engines.node.plain_files import read
from treadle.engines.node.process_load import PAGE_BYTES

HOST_SPARE_GIB = 2.0  # of the host's memory stays free when device memory moves there
MPS_CLIENT = "its processes use MPS, and the driver cannot move the memory of such"
NO_DRIVER = "this machine's driver cannot move the memory of a running process to the host"


@dataclass(frozen=True)
class Pauses:
    """Has running attempts paused, and go on."""

    devices: DeviceSource
    mps: Mps
    holders: DeviceHolders

    def of(self, live: LiveAttempt) -> tuple[Pause, ...]:
        """How the attempt can be paused, as far as is known."""
        if live.launch is not None and live.launch.part is not None:
            return ()
        suspends = self.devices.kind != CPU and not self._never_suspends(live)
        return (Pause.FROZEN, Pause.SUSPENDED) if suspends else (Pause.FROZEN,)

    async def order(self, live: LiveAttempt, action: int, how: Pause | None) -> None:
        """Tell its supervisor, which answers; also if it cannot be, as far as is seen here."""
        now = None if live.allocation is None else live.allocation.paused
        if now is None and self.devices.kind != CPU:
            live.pause.device_gib = await asyncio.to_thread(self._gib, live)
        why = self._objection(live) if how is Pause.SUSPENDED else ""
        wanted = {"action": action, "how": (now if why else how) or "", "why": why}
        await asyncio.to_thread(write, str(live.folder / WANTED), wanted)
        live.ask_to_look()

    def _gib(self, live: LiveAttempt) -> float | None:
        """Its memory on the devices now, all processes together; None if that is not known."""
        pids = set(live.scope.pids())
        found = [
            process.memory_gib
            for sight in self.devices.look()
            for process in sight.processes
            if process.pid in pids and process.memory_gib is not None
        ]
        return sum(found) if found else None

    def reached(self, live: LiveAttempt, allocation: Allocation) -> None:
        """It is paused, or computes again, as this allocation says."""
        self.holders.park(live, allocation)

    @cached_property
    def _driver(self) -> bool:
        return cuda_suspend.is_there()

    def _never_suspends(self, live: LiveAttempt) -> str:
        if self.mps.is_client(live.id):
            return MPS_CLIENT
        return live.pause.cannot_suspend or ("" if self._driver else NO_DRIVER)

    def _objection(self, live: LiveAttempt) -> str:
        if why := self._never_suspends(live):
            return why
        needs_gib, has_gib = live.pause.device_gib or 0.0, _room_gib(live)
        if needs_gib + HOST_SPARE_GIB > has_gib:
            return (
                f"its {needs_gib:.1f} GiB of device memory have no room on the host, where "
                f"{has_gib:.1f} GiB are free"
            )
        return ""


def _room_gib(live: LiveAttempt) -> float:
    """What the attempt may have more of the host's memory."""
    said = read("/proc/meminfo").partition(b"MemAvailable:")[2].split()
    room_gib = int(said[0]) / 2**20
    limit_gib = None if live.launch is None else live.launch.memory_gib
    if limit_gib is None:
        return room_gib
    return min(room_gib, limit_gib - sum(map(_resident_gib, live.scope.pids())))


def _resident_gib(pid: int) -> float:
    with suppress(OSError, ValueError, IndexError):
        return int(read(f"/proc/{pid}/statm").split()[1]) * PAGE_BYTES / 2**30
    return 0.0
