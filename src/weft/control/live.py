"""The live controller as one object: all that the API can ask for, and the loop behind it."""

import asyncio
import json
import logging
import platform
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from weft.control.book import Book, verdicts
from weft.control.clock import wall
from weft.control.controller import Controller
from weft.control.deciding import Resting
from weft.control.desk import Desk
from weft.control.figures import figures
from weft.control.history import History
from weft.control.keeper import Keeper
from weft.control.people import People
from weft.control.reads import Reads, StatusFacts, replace_url
from weft.control.recovery import Wanted, node_text, open_desk
from weft.control.watching import EVERY_S, Watching
from weft.control.wishes import Wishes
from weft.core.cluster import Device
from weft.core.events import DeviceClosed, DeviceOpened
from weft.engines.devices import DeviceSource, node_of
from weft.engines.local import LocalEngine
from weft.failures.memory import Memory, Patience
from weft.failures.retry import Classified
from weft.failures.rules import RuleTable, shipped
from weft.journal.codec import Noted
from weft.store.rows import Batch
from weft.store.store import Store
from weft.version import __version__
from weft.wire.jobs import JobView
from weft.wire.machine import NodeView, Status, Who
from weft.wire.problems import InvalidRequestError, NotFoundError

logger = logging.getLogger("weft")

EVENTS_IN_BUNDLE = 2000
REMEMBERED_MAX = 500  # jobs, users and places that have failed; it is written at every failure


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """How a controller runs on this machine."""

    root: Path
    devices: DeviceSource
    node_name: str = field(default_factory=platform.node)
    wanted: Wanted = field(default_factory=Wanted)
    rules: RuleTable = field(default_factory=shipped)
    patience: Patience = field(default_factory=Patience)
    admins: frozenset[str] = frozenset()
    avoid: tuple[int, ...] = ()  # devices that are not used
    address: str = ""  # where jobs report
    socket: str = ""
    url: str = ""


class Live:
    """A scheduler, an engine and a store that work together until they are closed."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        node = node_of(settings.devices, settings.node_name)
        self._settings = settings
        retry = Classified(
            verdicts(settings.rules), settings.patience, Memory(limit=REMEMBERED_MAX)
        )
        self.desk: Desk = open_desk(store, settings.root, node, settings.wanted, retry)
        self.stopped = asyncio.Event()  # somebody asked it to leave
        key = self.desk.seal.derive("tokens of jobs")
        self._history = History(self.desk)
        self._keeper = Keeper(self.desk, self._history.published)
        book = Book(self.desk, rules=settings.rules, token_key=key, address=settings.address)
        self._engine = LocalEngine(
            node=node,
            devices=settings.devices,
            book=book,
            inbox=self.desk.inbox,
            root=settings.root,
            clock=self.desk.clock,
            on_device=self._on_device,
        )
        facts = StatusFacts(wall(), settings.socket, settings.url)
        self._reads = Reads(self.desk, self._engine, facts)
        self._wishes = Wishes(self.desk, self._keeper, self._reads)
        self._people = People(self.desk, self._keeper, token_key=key, admins=settings.admins)
        self._watching = Watching(self.desk, self._engine.folders)
        self._controller = Controller(
            self.desk.scheduler,
            self._engine,
            self.desk.clock,
            self.desk.inbox,
            keep=self._keeper.keep,
            on_error=self._policy_failed,
        )
        self._tasks: list[asyncio.Task[None]] = []
        # -- what the API asks for, by who answers it
        self.jobs, self.job, self.why = self._reads.jobs, self._reads.job, self._reads.why
        self.log, self.nodes, self.policy = self._reads.log, self._reads.nodes, self._reads.policy
        self.status, self.snapshot = self._reads.status, self._reads.snapshot
        self.submit, self.dry_run = self._wishes.submit, self._wishes.dry_run
        self.hold, self.release = self._wishes.hold, self._wishes.release
        self.change, self.set_policy = self._wishes.change, self._wishes.set_policy
        self.report = self._watching.report
        self.events, self.events_last = self._history.events, self._history.events_last
        self.follow, self.usage = self._history.follow, self._history.usage
        self.who_of_uid, self.who_of_token = self._people.who_of_uid, self._people.who_of_token
        self.make_token, self.tokens = self._people.make_token, self._people.tokens
        self.revoke_token = self._people.revoke_token

    # -- life -----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Write down that it begins, take over what runs, and go."""
        desk = self.desk
        settings = {"node": node_text(desk.node), "policy": desk.decider.policy}
        settings["placement"] = desk.decider.placement
        adopted = sum(1 for job in desk.scheduler.jobs.values() if job.allocation is not None)
        text = f"version {__version__}, {len(desk.records)} jobs, {adopted} of them with devices"
        await self._keeper.note(Batch(settings=settings), Noted("controller started", text))
        for number in self._settings.avoid:
            self._engine.upkeep.avoid(number)
        await self._engine.adopt(list(desk.scheduler.jobs.values()))
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._controller.run(), name="controller"),
            loop.create_task(self._watch(), name="watching"),
        ]
        self._tasks[0].add_done_callback(self._controller_ended)

    def listening(self, url: str) -> None:
        """The API is reachable over TCP as well."""
        self._reads.facts = replace_url(self._reads.facts, url)

    async def close(self) -> None:
        """Leave; jobs run on and are taken over by the next controller."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._engine.close()
        with suppress(Exception):  # It leaves in any case; this line only says so.
            await self._keeper.note(Batch(), Noted("controller left", "jobs run on"))
        self._keeper.close()
        self.desk.store.close()

    def _controller_ended(self, task: "asyncio.Task[None]") -> None:
        """A controller that cannot go on leaves, so that the next one finds everything."""
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the controller ended: %s", error, exc_info=error)
            self.stopped.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                self._watching.look()
            except OSError as error:
                logger.warning("progress cannot be read: %s", error)
            if self.desk.draining and not self._holding():
                self.stopped.set()

    def _holding(self) -> bool:
        return any(job.allocation is not None for job in self.desk.scheduler.jobs.values())

    def _policy_failed(self, now: float, error: Exception) -> None:
        """The last good schedule stays; what went wrong is an event."""
        sentence = f"{error}" or repr(error)
        logger.error("the policy failed at %.3f s: %s", now, sentence)
        self.desk.decider.error = sentence
        task = asyncio.get_running_loop().create_task(
            self._keeper.note(Batch(), Noted("policy failed", sentence))
        )
        self._tasks = [*(t for t in self._tasks if not t.done()), task]

    def _on_device(self, device: Device, usable: bool, reason: str) -> None:
        self.desk.tell(DeviceOpened(device) if usable else DeviceClosed(device, reason))

    # -- what needs more than one of them -------------------------------------------------------

    async def cancel(self, who: Who, identity: str) -> tuple[JobView, ...]:
        return await self._wishes.cancel(who, identity)

    async def manage(self, who: Who, device: str, order: str) -> NodeView:  # noqa: ARG002
        number = self._number(device)
        if order == "avoid":
            self._engine.upkeep.avoid(number)
        elif order == "manage":
            self._engine.upkeep.manage(number)
        else:
            raise InvalidRequestError(f"order is {order[:40]!r}; expected manage or avoid")
        return self._engine.view()

    async def unquarantine(self, who: Who, device: str) -> NodeView:
        return await self.manage(who, device, "manage")

    async def shut_down(self, who: Who, mode: str) -> Status:
        desk = self.desk
        if mode == "cancel":
            desk.draining = True
            await self._wishes.cancel_all(who)
        elif mode == "drain":
            desk.draining = True
            desk.scheduler.set_policy(Resting(desk.scheduler.policy), desk.clock.now())
        elif mode == "leave":
            self.stopped.set()
        else:
            raise InvalidRequestError(f"mode is {mode[:40]!r}; expected leave, drain or cancel")
        return self._reads.status()

    def journal(self) -> AsyncIterator[bytes]:
        return self._history.journal()

    def figures(self) -> tuple[tuple[str, Mapping[str, str], float], ...]:
        return figures(self.desk, self._engine.view())

    def debug(self) -> Mapping[str, str]:
        """What helps to find a fault. Nothing of it is secret."""
        events = self._history.events_last(limit=EVENTS_IN_BUNDLE).events
        lines = [f"{event.id} {event.at:.3f} {event.kind} {event.text}" for event in events]
        return {
            "version.txt": f"weft {__version__}\npython {sys.version}\n{platform.platform()}\n",
            "status.txt": f"{self._reads.status()}\n{self._reads.policy()}\n",
            "nodes.txt": f"{self._engine.view()}\n",
            "events.txt": "\n".join(lines) + "\n",
            "snapshot.json": json.dumps(self._reads.snapshot(), indent=1),
        }

    def _number(self, device: str) -> int:
        node = self.desk.node
        name, _, number = device.rpartition(":")
        known = name in ("", node.name) and number.isascii() and number.isdigit()
        if known and int(number[:6]) < node.device_count:
            return int(number)
        raise NotFoundError(
            f"there is no device {device[:80]!r}; expected {node.name}:0 to "
            f"{node.name}:{node.device_count - 1}"
        )
