"""Members that are given no new jobs: their agents do not answer, or the cluster does not to them.

Their devices are closed, which every policy sees, and opened with the next answer, or with the next
that has no doubt: an agent whose grant is not renewed says so.
What runs on a silent node may run on, and is not touched: time proves nothing about a member
(lost_parts.py). Its agent says what is over, or the next one does.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Mapping
from math import inf

from treadle.core.cluster import Device
from treadle.core.events import DeviceClosed, DeviceOpened, Event
from treadle.core.job import JobId
from treadle.core.wording import span
from treadle.engines.fleet.course import Course
from treadle.engines.fleet.node_client import NodeClient
from treadle.engines.fleet.port import Joined

LOOK_EVERY_S = 1.0
SILENT, UNCONFIRMED = "silent", "unconfirmed"  # the causes for which their devices are closed
AWAY = (SILENT, UNCONFIRMED)

logger = logging.getLogger("treadle")


def _until(node: str, left_s: float) -> str:
    """What becomes of a job on a node that left, in words for people."""
    if left_s < inf:
        return f"it may go on there, and starts elsewhere in {span(left_s)} unless {node} is back"
    return f"it may go on there; if {node} is off, treadle nodes forget {node} says so"


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
                self.close(name)
            for name in [name for name, each in self._clients.items() if each.doubt]:
                self._close_unconfirmed(name)

    def answered(self, name: str) -> None:
        """Before the facts of that answer are heard: nothing is ordered there for them."""
        client = self._clients.get(name)
        doubted = client is not None and bool(client.doubt)
        if client is not None and client.is_silent:
            return  # It was asked long ago.
        self._open(name, (SILENT,) if doubted else AWAY)
        if doubted:
            self._close_unconfirmed(name)

    def joined(self, name: str) -> None:
        """It was lost, and is a new one: how the old one stood is over."""
        self._open(name, AWAY)

    def _open(self, name: str, causes: Container[str]) -> None:
        shut = [device for device, why in self._closed.items() if why.cause in causes]
        if own := [device for device in shut if device.node == name]:
            self._tell(DeviceOpened(own[0], tuple(own[1:])))

    def are_among(self, names: Iterable[str]) -> bool:
        """Whether a node of these is closed: the scheduler gives it nothing more."""
        shut = {device.node for device, why in self._closed.items() if why.cause in AWAY}
        return not shut.isdisjoint(names)

    def told(self, name: str) -> tuple[DeviceClosed, ...]:
        """What its agent must know of closed devices: it knows the rest by itself."""
        own = (each for device, each in self._closed.items() if device.node == name)
        return tuple(each for each in own if each.cause not in AWAY)

    def jobs(
        self, courses: Iterable[Course], closing_in_s: Mapping[str, float]
    ) -> dict[JobId, str]:
        """Jobs of which a node is away in this way, and since when, in words for people.

        closing_in_s: until when what is on nodes that left may go on.
        """
        away = {name: each.silence() for name, each in self._clients.items() if each.is_slow}
        for name in away:
            if self._clients[name].away:
                away[name] += f": {_until(name, closing_in_s.get(name, inf))}"
        away |= {name: each.unconfirmed() for name, each in self._clients.items() if each.doubt}
        found = {}
        for course in courses if away else ():
            seats = {} if course.gang is None else course.gang.seats
            for name, said in away.items():
                if name in seats and not seats[name].settled:
                    found[course.job] = said
        return found

    def _silent(self) -> set[str]:
        return {name for name, each in self._clients.items() if each.is_silent}

    def close(self, name: str) -> None:
        """It is given no new jobs."""
        said = f"{self._clients[name].silence()}: it is given no new jobs"
        self._shut(name, f"the agent of node {name} does not answer", SILENT, said)

    def _close_unconfirmed(self, name: str) -> None:
        client = self._clients[name]
        said = f"{client.unconfirmed()}: nothing is started there"
        self._shut(name, client.doubt, UNCONFIRMED, said)

    def _shut(self, name: str, reason: str, cause: str, said: str) -> None:
        """said: for the log, if it was open."""
        member = self._members.get(name)
        count = 0 if member is None else member.node.device_count
        devices = [Device(name, number) for number in range(count)]
        shut = [device for device in devices if device not in self._closed]
        if shut:
            logger.warning("%s", said)
            self._tell(DeviceClosed(shut[0], reason, cause, tuple(shut[1:])))
