"""Nodes that are members and whose agents do not answer: they are given no new jobs meanwhile.

Their devices are closed, which every policy sees, and opened with the next answer. What runs there
may run on, and is not touched: time proves nothing about a member (lost_parts.py). Its agent says
what is over, or the next one does.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from treadle.core.cluster import Device
from treadle.core.events import DeviceClosed, DeviceOpened, Event
from treadle.core.job import JobId
from treadle.engines.fleet.course import Course
from treadle.engines.fleet.node_client import NodeClient
from treadle.engines.fleet.port import Joined

LOOK_EVERY_S = 1.0
SILENT = "silent"  # the cause for which their devices are closed

logger = logging.getLogger("treadle")


class SilentNodes:
    """Closes and opens devices, and says of jobs that their nodes do not answer."""

    def __init__(
        self,
        clients: Mapping[str, NodeClient],
        members: Mapping[str, Joined],
        closed: Mapping[Device, DeviceClosed],
        tell: Callable[[Event], None],
    ) -> None:
        """All of them as they are at any time. closed: devices that take no new work."""
        self._clients, self._members, self._closed = clients, members, closed
        self._tell = tell

    async def watch(self) -> None:
        silent: set[str] = set()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            before, silent = silent, self._silent()
            # Twice: after a pause of this process, answers wait to be read.
            for name in before & silent:
                self._close(name)

    def answered(self, name: str) -> None:
        shut = [device for device, why in self._closed.items() if why.cause == SILENT]
        if own := [device for device in shut if device.node == name]:
            self._tell(DeviceOpened(own[0], tuple(own[1:])))

    def are_among(self, names: Iterable[str]) -> bool:
        """Whether a node of these is closed: the scheduler gives it nothing more."""
        shut = {device.node for device, why in self._closed.items() if why.cause == SILENT}
        return not shut.isdisjoint(names)

    def told(self, name: str) -> tuple[DeviceClosed, ...]:
        """What its agent must know of closed devices: it knows by itself that it answers."""
        own = (each for device, each in self._closed.items() if device.node == name)
        return tuple(each for each in own if each.cause != SILENT)

    def jobs(self, courses: Iterable[Course]) -> dict[JobId, str]:
        """Jobs of which a node does not answer, and since when, in words for people."""
        found = {}
        slow = [each for each in self._clients.values() if each.is_slow]
        for course in courses if slow else ():
            seats = {} if course.gang is None else course.gang.seats
            for client in slow:
                if client.name in seats and not seats[client.name].settled:
                    found[course.job] = client.silence()
        return found

    def _silent(self) -> set[str]:
        return {name for name, each in self._clients.items() if each.is_silent}

    def _close(self, name: str) -> None:
        member = self._members.get(name)
        count = 0 if member is None else member.node.device_count
        devices = [Device(name, number) for number in range(count)]
        shut = [device for device in devices if device not in self._closed]
        if shut:
            logger.warning("%s: it is given no new jobs", self._clients[name].silence())
            reason = f"the agent of node {name} does not answer"
            self._tell(DeviceClosed(shut[0], reason, SILENT, tuple(shut[1:])))
