"""The live controller as one object: all that the API can ask for, and the loop behind it."""

import asyncio
import json
import logging
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from treadle.control.api.accounts import People
from treadle.control.api.commands import Wishes
from treadle.control.api.history import History
from treadle.control.api.metrics import figures
from treadle.control.api.queries import Reads, StatusFacts, replace_url
from treadle.control.jobs.desk import Desk
from treadle.control.jobs.launching import Book
from treadle.control.jobs.recovery import FIRST_NODE, Wanted, node_text, open_desk, whole_node
from treadle.control.learning.progress import EVERY_S, Watching
from treadle.control.loop.clock import wall
from treadle.control.loop.commit import Keeper
from treadle.control.loop.controller import Controller
from treadle.control.loop.live_policy import Resting
from treadle.core.cluster import Device
from treadle.core.events import DeviceClosed, DeviceOpened, NodeJoined
from treadle.engines.local.engine import LocalEngine
from treadle.engines.node.devices import DeviceSource, node_of
from treadle.failures.failure_history import FailureHistory, Patience
from treadle.failures.retry import Classified, live_verdicts
from treadle.failures.rules import RuleTable, shipped
from treadle.journal.codec import Noted
from treadle.store.rows import Batch
from treadle.store.store import Store
from treadle.version import __version__
from treadle.wire.machine import NodeView, Status, Who
from treadle.wire.problems import InvalidRequestError, NotFoundError

logger = logging.getLogger("treadle")

EVENTS_IN_BUNDLE = 2000
TIDY_EVERY_S = 3600.0
LEAVE_WITHIN_S = 2.0  # to write a last line
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
            live_verdicts(settings.rules), settings.patience, FailureHistory(limit=REMEMBERED_MAX)
        )
        self.desk: Desk = open_desk(store, settings.root, node, settings.wanted, retry)
        self.stopped = asyncio.Event()  # somebody asked it to leave
        key = self.desk.seal.derive("tokens of jobs")
        self._history = History(self.desk)
        self._keeper = Keeper(self.desk, self._history.published)
        self._book = Book(self.desk, rules=settings.rules, token_key=key, address=settings.address)
        self._engine = LocalEngine(
            node=node,
            devices=settings.devices,
            book=self._book,
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
            on_decided=self._decided,
        )
        self.desk.device_state = lambda number: self._engine.upkeep.view(number, ()).state
        self.desk.device_orders = self._device_orders
        self._avoided_now = set(settings.avoid)  # for this run only
        self._noted_trouble = ""
        self._tasks: list[asyncio.Task[None]] = []
        # -- what the API asks for, by who answers it
        self.jobs, self.job, self.why = self._reads.jobs, self._reads.job, self._reads.why
        self.log, self.nodes, self.policy = self._reads.log, self._reads.nodes, self._reads.policy
        self.status, self.snapshot = self._reads.status, self._reads.snapshot
        self.submit, self.dry_run = self._wishes.submit, self._wishes.dry_run
        self.cancel, self.hold = self._wishes.cancel, self._wishes.hold
        self.release = self._wishes.release
        self.change, self.set_policy = self._wishes.change, self._wishes.set_policy
        self.report = self._watching.report
        self.events, self.events_last = self._history.events, self._history.events_last
        self.follow, self.usage = self._history.follow, self._history.usage
        self.journal = self._history.journal
        self.who_of_uid, self.who_of_token = self._people.who_of_uid, self._people.who_of_token
        self.make_token, self.tokens = self._people.make_token, self._people.tokens
        self.revoke_token = self._people.revoke_token

    # -- life -----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Write down that it begins, take over what runs, and go."""
        desk = self.desk
        settings = {"node": node_text(desk.node), "policy": desk.decider.policy}
        before = desk.store.setting("node")
        if before is None:
            settings[FIRST_NODE] = whole_node(desk.node)
        elif before != settings["node"]:
            desk.tell(NodeJoined(desk.node))  # The journal must say that the machine is another.
        settings["placement"] = desk.decider.placement
        adopted = sum(1 for job in desk.scheduler.jobs.values() if job.allocation is not None)
        text = f"version {__version__}, {len(desk.records)} jobs, {adopted} of them with devices"
        await self._keeper.note(Batch(settings=settings), Noted("controller started", text))
        self._shut_devices()
        self._book.catch_up(self._engine.folders)
        await self._engine.adopt(list(desk.scheduler.jobs.values()))
        await self._open_devices()
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
            left = self._keeper.note(Batch(), Noted("controller left", "jobs run on"))
            await asyncio.wait_for(left, LEAVE_WITHIN_S)
        self._keeper.close()
        self.desk.store.close()

    def _controller_ended(self, task: "asyncio.Task[None]") -> None:
        """A controller that cannot go on leaves, so that the next one finds everything."""
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the controller ended: %s", error, exc_info=error)
            self.stopped.set()

    async def _watch(self) -> None:
        tidy_at = self.desk.clock.now()
        while True:
            await asyncio.sleep(EVERY_S)
            if self.desk.clock.now() >= tidy_at:
                tidy_at += TIDY_EVERY_S
                await self._keeper.tidy()
                await self._people.write_used()
            try:
                self._watching.look()
                self.desk.busyness.see(self._engine.view(), self.desk.open)
            except Exception:  # whatever jobs print or leave behind, the next look may be better
                logger.exception("progress cannot be read")
            self.desk.tell(*self.desk.gates.look_again(self.desk.records))
            await self._note_trouble()
            if self.desk.draining and not self._holding():
                self.stopped.set()

    def _holding(self) -> bool:
        return any(job.allocation is not None for job in self.desk.scheduler.jobs.values())

    def _policy_failed(self, now: float, error: Exception) -> None:
        """The last good schedule stays; what went wrong is an event."""
        sentence = f"{error}" or repr(error)
        if sentence == self.desk.decider.error:
            return  # It was said already, and nothing has changed since.
        logger.error("the policy failed at %.3f s: %s", now, sentence, exc_info=error)
        self.desk.decider.error = sentence
        task = asyncio.get_running_loop().create_task(
            self._keeper.note(Batch(), Noted("policy failed", sentence))
        )
        self._tasks = [*(t for t in self._tasks if not t.done()), task]

    def _decided(self, spent_s: float) -> None:
        decider = self.desk.decider
        decider.last_s, decider.error = spent_s, ""
        decider.longest_s = max(decider.longest_s, spent_s)

    async def _note_trouble(self) -> None:
        """A policy that fails outside its decisions is told of once."""
        trouble = self.desk.decider.trouble
        if trouble and trouble != self._noted_trouble:
            self._noted_trouble = trouble
            await self._keeper.note(Batch(), Noted("policy failed", trouble))

    # -- devices --------------------------------------------------------------------------------

    def _shut_devices(self) -> None:
        """What an admin wants avoided, and what was found unclean, stays shut."""
        upkeep, count = self._engine.upkeep, self.desk.node.device_count
        kept = json.loads(self.desk.store.setting("devices") or "{}")
        for order, shut in (("avoided", upkeep.avoid), ("quarantined", upkeep.quarantine)):
            for number, reason in kept.get(order, {}).items():
                if int(number) < count:
                    shut(int(number), reason)
        for number in self._avoided_now:
            upkeep.avoid(number)

    async def _open_devices(self) -> None:
        """What was shut for another reason, and is not any more, is used again."""
        if self._settings.devices.watched:
            await self._engine.upkeep.look()
        for device in self.desk.scheduler.closed:
            if device.number not in self._engine.upkeep.shut:
                self.desk.tell(DeviceOpened(device))

    def _device_orders(self) -> str:
        orders = self._engine.upkeep.orders()
        for number in self._avoided_now:
            orders["avoided"].pop(number, None)
        return json.dumps(orders)

    def _on_device(self, device: Device, usable: bool, reason: str) -> None:
        self.desk.tell(DeviceOpened(device) if usable else DeviceClosed(device, reason))

    # -- what needs more than one of them -------------------------------------------------------

    async def manage(self, who: Who, device: str, order: str) -> NodeView:
        number = self._number(device)
        self._avoided_now.discard(number)
        if order == "avoid":
            self._engine.upkeep.avoid(number)
        elif order == "manage":
            self._engine.upkeep.manage(number)
        else:
            raise InvalidRequestError(f"order is {order[:40]!r}; expected manage or avoid")
        said = Noted("devices", f"{who.user} has {self.desk.node.name}:{number} {order}d")
        await self._keeper.note(Batch(settings={"devices": self._device_orders()}), said)
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

    def figures(self) -> tuple[tuple[str, Mapping[str, str], float], ...]:
        return figures(self.desk, self._engine.view())

    def debug(self) -> Mapping[str, str]:
        """What helps to find a fault. Nothing of it is secret."""
        events = self._history.events_last(limit=EVENTS_IN_BUNDLE).events
        lines = [f"{event.id} {event.at:.3f} {event.kind} {event.text}" for event in events]
        return {
            "version.txt": f"treadle {__version__}\npython {sys.version}\n{platform.platform()}\n",
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
