"""The nodes of a Ray cluster, as a fleet engine wants them.

Ray itself is in another process (driver.py). If that ends, another one is started: links fail until
then, and no node is said to have left, since its jobs run on. One that says nothing any more is
killed: it would give the lease back when it goes on, perhaps after the next one has resumed it.
"""

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import msgspec

from treadle.core.errors import EngineError, InvalidInputError
from treadle.engines.agent.agent_errors import ClusterAwayError, LinkLostError
from treadle.engines.agent.wire import WireLink
from treadle.engines.clusters.ray import frames
from treadle.engines.clusters.ray.frames import (
    Answer,
    Ask,
    NoAnswer,
    NodeIs,
    NodeLeft,
    Ready,
    Refused,
    Settings,
    Unused,
)
from treadle.engines.fleet.port import Change, Fencing, Joined, Left, NewEpoch

START_WITHIN_S = 55.0
AGAIN_AFTER_S = 3.0
# Without a word of the driver, in its beats: agents are not asked any more; it is killed.
QUIET_BEATS, HUNG_BEATS = 5, 15

DRIVER = "the process that speaks to Ray"
Connect = Callable[[], socket.socket]  # starts a driver; the socket to it

logger = logging.getLogger("treadle")


class Opened(NamedTuple):
    """A driver that is ready."""

    link: socket.socket
    ready: Ready
    members: list[NodeIs]  # the nodes that have agents
    unused: dict[str, str]  # nodes that are not used, and why


class RayLink(WireLink):
    """The way to one agent, through the driver."""

    def __init__(self, fleet: "RayFleet", node: str, agent: str) -> None:
        self._fleet, self.node, self.agent = fleet, node, agent

    async def call(self, verb: str, document: bytes) -> bytes:
        return await self._fleet.ask(self.node, self.agent, verb, document)


class RayFleet:
    """Made when the controller starts; it waits for the agents of the nodes that there are."""

    def __init__(
        self,
        connect: Connect,
        settings: Settings,
        *,
        kill: Callable[[], object] = str,
        refusal: Callable[[], str] = str,
        fencing: Fencing | None = None,
        keep: Callable[[Ready], object] = str,
        beat_s: float = frames.BEAT_EVERY_S,
    ) -> None:
        """Raises InvalidInputError if the cluster refuses us, or has another controller.

        kill: ends the driver that was connected last, though it hangs.
        refusal: why that one has ended, if its user can mend that.
        keep: writes down the mark of the cluster and the epoch, before anything is launched there.
        """
        self.fencing = fencing or Fencing()
        self._connect, self._settings, self._refusal = connect, settings, refusal
        self._kill, self._keep, self._beat_s = kill, keep, beat_s
        self._quiet = 0  # beats that the driver has missed
        self._known: dict[str, RayLink] = {}
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._tell: Callable[[Change], None] = lambda _: None
        self._socket, ready, members, self._unused = self._opened(settings)
        self.epoch = self._held = ready.epoch  # held: the newest that the lease has given it
        self._coming = set(ready.coming)
        ordered = sorted(members, key=lambda each: natural(each.node.name))
        self._members = tuple(self._joined(each) for each in ordered)

    def members(self) -> tuple[Joined, ...]:
        return self._members

    def coming(self) -> frozenset[str]:
        return frozenset(self._coming)

    def unused(self) -> dict[str, str]:
        return dict(self._unused)

    async def begin(self, tell: Callable[[Change], None]) -> int:
        self._tell = tell
        self._begin_driver(await self._attach(self._socket))
        return self.epoch

    async def above(self, epoch: int) -> int:
        """By another driver: the one that there is gives the lease back."""
        await self._end_driver()
        self._settings = msgspec.structs.replace(self._settings, epoch_min=epoch)
        opened = await asyncio.to_thread(self._opened, self._settings)
        self.epoch = self._held = opened.ready.epoch
        self._begin_driver(await self._attached(opened))
        return self.epoch

    async def close(self) -> None:
        await self._end_driver()

    def _begin_driver(self, reader: asyncio.StreamReader) -> None:
        work = (self._run(reader), self._watch_driver())
        self._tasks = [asyncio.create_task(each) for each in work]

    async def _end_driver(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fail_all("the driver leaves")
        if self._writer is None:
            self._socket.close()
            return
        # The driver gives the lease back and closes its side then.
        self._writer.write_eof()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                while await self._reader.read(1 << 16):
                    pass
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        self._writer = None

    async def ask(self, node: str, agent: str, verb: str, document: bytes) -> bytes:
        """A call to an agent; raises LinkLostError if no answer comes, or TooLongError."""
        if self._writer is None:
            raise ClusterAwayError(f"node {node} cannot be asked: there is no connection to Ray")
        if self._quiet >= QUIET_BEATS:
            raise ClusterAwayError(f"node {node} cannot be asked: {DRIVER} says nothing")
        number = next(self._numbers)
        frame = frames.packed(Ask(number, node, agent, verb, document))
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._writer.write(frame)
            await self._writer.drain()
            return await answer
        except OSError as error:
            raise ClusterAwayError(f"node {node} cannot be asked: {error}") from None
        finally:
            self._asked.pop(number, None)
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # The connection may have ended before this waited for it.

    # -- the driver -----------------------------------------------------------------------------

    def _opened(self, settings: Settings) -> Opened:
        """Start a driver and wait until it has taken the lease and nodes have agents."""
        link = self._connect()
        try:
            link.settimeout(START_WITHIN_S)
            link.sendall(frames.packed(settings))
            opened = _ready(link)
            link.settimeout(None)
        except TimeoutError:
            self._kill()
            link.close()
            raise EngineError(
                f"Ray has not given agents to its nodes within {START_WITHIN_S:.0f} s",
                retryable=True,
            ) from None
        except (OSError, frames.ClosedError):
            link.close()
            if refusal := self._refusal():
                raise InvalidInputError(refusal) from None
            raise EngineError(
                f"{DRIVER} ended before it was ready; its last lines are in the daemon's log",
                retryable=True,
            ) from None
        except InvalidInputError:
            link.close()
            raise
        self._keep(opened.ready)
        return opened

    async def _attach(self, link: socket.socket) -> asyncio.StreamReader:
        self._reader, self._writer = await asyncio.open_connection(sock=link)
        return self._reader

    async def _run(self, reader: asyncio.StreamReader) -> None:
        """Hear the driver; start another one when it has ended."""
        while True:
            with contextlib.suppress(frames.ClosedError):
                while True:
                    message = await frames.read(reader, frames.FROM_DRIVER)
                    self._quiet = 0
                    self._hear(message)
            self._fail_all("the connection to Ray ended")
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            logger.warning(
                "the connection to Ray ended; trying to connect again. Jobs run on as long as Ray "
                "says that their nodes are alive"
            )
            reader = await self._reopened()
            logger.info("connected to Ray again")

    async def _watch_driver(self) -> None:
        """By the beat: if this process is stopped too, its time does not count."""
        while True:
            await asyncio.sleep(self._beat_s)
            self._quiet = 0 if self._writer is None else self._quiet + 1
            if self._quiet == QUIET_BEATS:
                self._fail_all(f"{DRIVER} says nothing")
            elif self._quiet == HUNG_BEATS:
                logger.error(
                    "%s has said nothing for %.0f s: it is killed, and another one is started",
                    DRIVER,
                    HUNG_BEATS * self._beat_s,
                )
                self._kill()

    async def _reopened(self) -> asyncio.StreamReader:
        settings = msgspec.structs.replace(self._settings, resumes=self._held)
        said = ""
        while True:
            try:
                opened = await asyncio.to_thread(self._opened, settings)
            except (EngineError, InvalidInputError) as error:
                if str(error) != said:
                    logger.warning("%s", error)
                    said = str(error)
                await asyncio.sleep(AGAIN_AFTER_S)
                continue
            if opened.ready.epoch != self._held:
                # It has given the lease back. If it took charge of agents, they refuse our epoch.
                logger.warning("another controller has had this Ray cluster meanwhile")
                self._held = opened.ready.epoch
                self._tell(NewEpoch(self._held))
            return await self._attached(opened)

    async def _attached(self, opened: Opened) -> asyncio.StreamReader:
        """Go on with another driver: what it has told is told on."""
        members, coming = opened.members, opened.ready.coming
        reader = await self._attach(opened.link)
        self._unused = opened.unused
        # A node without an agent is a member, and what runs there runs on.
        there = {each.node.name for each in members} | set(coming)
        for name in (self._known.keys() | self._coming) - there:
            self._hear(NodeLeft(name, "the node is no member of the Ray cluster any more"))
        for each in members:
            self._hear(each)
        return reader

    def _hear(self, message: frames.FromDriver) -> None:
        match message:
            case Answer() | NoAnswer():
                self._hear_answer(message)
            case NodeIs(node, _, agent, _):
                known = self._known.get(node.name)
                if known is None or known.agent != agent:
                    self._tell(self._joined(message))
            case NodeLeft(name, why):
                if self._known.pop(name, None) is not None or name in self._coming:
                    self._coming.discard(name)
                    self._tell(Left(name, why))
            case Unused(name, why):
                self._unused[name] = why
            case Refused(why):
                logger.error("%s", why)

    def _hear_answer(self, answer: Answer | NoAnswer) -> None:
        waiting = self._asked.get(answer.number)
        if waiting is None or waiting.done():
            return
        if isinstance(answer, Answer):
            waiting.set_result(answer.document)
        else:
            waiting.set_exception(LinkLostError(answer.why))

    def _joined(self, found: NodeIs) -> Joined:
        link = RayLink(self, found.node.name, found.agent)
        self._known[found.node.name] = link
        self._coming.discard(found.node.name)
        return Joined(found.node, found.address, link, found.machine)

    def _fail_all(self, why: str) -> None:
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(ClusterAwayError(why))


def natural(name: str) -> list[tuple[str, int]]:
    """A key that puts n2 before n10."""
    return [(text, int(digits or -1)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def _ready(link: socket.socket) -> Opened:
    """What the driver has said once it is ready. Raises its refusal."""
    members: list[NodeIs] = []
    unused: dict[str, str] = {}
    while True:
        match frames.read_blocking(link):
            case NodeIs(node) as found:
                members = [*(each for each in members if each.node.name != node.name), found]
            case NodeLeft(name):
                members = [each for each in members if each.node.name != name]
            case Unused(name, why):
                unused[name] = why
            case Ready() as ready:
                return Opened(link, ready, members, unused)
            case Refused(why):
                raise InvalidInputError(why)
