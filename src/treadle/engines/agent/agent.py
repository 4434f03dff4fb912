"""The agent of one node: a local engine that a controller elsewhere gives orders to.

Each controller that takes charge gets a local engine of its own (session.py). The engine before is
closed, which leaves its supervisors running, and the fresh one adopts them as on a single machine.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace as with_fields
from pathlib import Path
from typing import Any
from uuid import uuid4

from treadle.core.actions import Action, Start
from treadle.core.attempt import How
from treadle.core.cluster import Node
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.events import AttemptEnded
from treadle.core.job import JobId
from treadle.core.launch import Part
from treadle.core.machine import Leftovers
from treadle.engines.agent import adoption, messages
from treadle.engines.agent.copies.agent_copies import AgentCopies
from treadle.engines.agent.copies.own_folders import discard_own
from treadle.engines.agent.errors import LostPlaceError, StaleEpochError, UnconfirmedError
from treadle.engines.agent.lease_doubts import LeaseDoubts
from treadle.engines.agent.node_lease import LEASE_S, NodeLease
from treadle.engines.agent.report_relay import ReportRelay
from treadle.engines.agent.session import NodeControls, Session, job_of
from treadle.engines.context import EngineContext, EngineOptions
from treadle.engines.local.engine import LocalEngine
from treadle.engines.node import fence, kept_value
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.devices import DeviceSource, node_of
from treadle.engines.node.environment import free_port
from treadle.engines.node.members_files import read_members
from treadle.engines.node.order_document import Surroundings
from treadle.engines.node.processes import boot_id
from treadle.files import is_folder, why_refused

FREE_LOOK_S = 0.05  # between looks whether devices are free
FACTS_WAIT_MAX_S = 30.0
SWEEP_EVERY_S = 3600.0  # what is left of copies that broke off

logger = logging.getLogger("treadle")


class AgentClock:
    """Seconds since the machine was started."""

    def now(self) -> float:
        return fence.now()

    async def sleep_until(self, moment: float) -> None:
        while (left_s := moment - self.now()) > 0:
            await asyncio.sleep(left_s)


class Agent:
    """Lives on the event loop of its process; one for each node and root.

    The process that has it calls `confirm` every CONFIRM_EVERY_S while the cluster says that the
    node is a member, passes calls of the controller to `call`, and may be killed at any moment:
    what runs keeps running until the last confirmation has run out, and the agent that is made next
    over the same root takes it over.
    """

    def __init__(
        self,
        root: Path,
        node_name: str,
        *,
        devices: DeviceSource,
        address: str = "127.0.0.1",
        excluded: Collection[int] = (),
        options: EngineOptions | None = None,
        lease_s: float = LEASE_S,
        member: str = "",
    ) -> None:
        """root: a folder of its own on this node. address: of this node, for the other nodes.

        member: another one each time that the node joins the cluster.
        """
        self.root, self.address = root, address
        self.node: Node = node_of(devices, node_name)
        self.folders = AttemptFolders(root)
        # Another one if attempts of before cannot run here, or are not known here.
        self.machine = f"{boot_id()}/{self.folders.instance}"
        self._devices, self._excluded = devices, excluded
        self._options = options or EngineOptions()
        self._lease = NodeLease(root, lease_s, member)
        self._doubts = LeaseDoubts(root, node_name)
        self._epoch = self._read_epoch()
        self._session: Session | None = None
        # Launches of one `TakeCharge` that is to come: its name, and the batches by number.
        self._announced: tuple[str, dict[int, tuple[messages.Ordered, ...]]] = ("", {})
        self._taking = asyncio.Lock()
        self._sweep_at = 0.0
        self._sweeping: asyncio.Task[None] | None = None
        self._relay = ReportRelay(root, self._token_of)
        self._copies = AgentCopies(self._roots, self, node_name)
        self._verbs: dict[str, Callable[[Any], Awaitable[object]]] = {
            "survey": self._survey,
            "announce": self._announce,
            "take-charge": self._take_charge,
            "orders": self._orders,
            "prepare": self._prepare,
            "gone": self._gone,
            "facts": self._facts,
            "output": self._output,
            "where": self._where,
            "order-device": self._order_device,
            "order-node": self._order_node,
            "tidy": self._tidy,
            "discard": self._discard,
            **self._copies.verbs,
        }

    def confirm(self, asked_at: float | None = None) -> None:
        """The cluster says that this node is a member: what runs may run for another lease_s.

        asked_at: when the cluster was asked, by engines.node.fence.now(); by default now.
        """
        try:
            lasted = self._lease.renew(asked_at)
        except OSError as error:
            self._doubts.not_written(error)
            return
        session = self._session
        if not lasted and session is not None:
            session.over = "the lease of the node had run out"
        self._doubts.confirmed(lasts=lasted and session is not None and not session.over)

    def doubt(self, why: str) -> None:
        """The cluster did not confirm this node when it was asked: a sentence why."""
        self._doubts.doubt(why)

    async def call(self, verb: str, document: bytes) -> bytes:
        """Carry out a call of the controller. It never raises: errors are answers too."""
        try:
            if verb not in self._verbs:
                return messages.refusal(InvalidInputError(f"an agent has no verb {verb[:40]!r}"))
            asked = messages.decode(document, messages.VERBS[verb][0])
            return messages.answer(await self._verbs[verb](asked))
        except (InvalidInputError, EngineError) as error:
            return messages.refusal(error)
        except Exception as error:  # the controller must hear of it, whatever it is
            logger.exception("the agent of node %s failed at %s", self.node.name, verb)
            return messages.refusal(error)

    def sees(self, path: str, content: str) -> bool:
        """Whether a path on this node leads to a file that the controller wrote."""
        with suppress(OSError):
            return bool(path) and Path(path).read_text() == content
        return False

    def has_folder(self, path: str) -> bool:
        """Whether a path on this node is that of a folder."""
        return is_folder(Path(path))

    def runs(self) -> bool:
        """Whether an attempt is alive here; of a folder that is gone, none can be taken over."""
        with suppress(FileNotFoundError):
            return any(adoption.look(self.folders, mark).alive for mark in self.folders.live())
        return False

    def running(self) -> dict[JobId, int]:
        """Ranks that run here, by job."""
        found = [adoption.look(self.folders, mark) for mark in self.folders.live()]
        statuses = {each.job: each.status for each in found if each.alive}
        return {job: 0 if status is None else len(status.codes) for job, status in statuses.items()}

    def note_departure(self) -> None:
        """This agent is ended on purpose: the next one says so of what was lost with it."""
        self._doubts.depart()

    def has_file(self, path: str) -> bool:
        """Whether there is something at a path on this node."""
        return os.path.exists(path)  # noqa: PTH110  (it never raises)

    async def close(self) -> None:
        """Leave; what runs keeps running."""
        self._relay.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        async with self._taking:
            await self._end_session()

    # -- taking charge --------------------------------------------------------------------------

    async def _survey(self, asked: messages.Survey) -> messages.Surveyed:
        async with self._taking:
            if asked.epoch != self._epoch:
                self._enter(asked.epoch)
                await self._end_session()  # Nothing changes any more while we look.
        try:
            return await asyncio.to_thread(self._look, asked)
        except OSError as error:
            raise EngineError(
                f"the attempts on node {self.node.name} cannot be read: {error}", retryable=True
            ) from None

    def _look(self, asked: messages.Survey) -> messages.Surveyed:
        marks = set(self.folders.live())
        marks |= {mark for mark in asked.attempts if is_folder(self.folders.path(*mark))}
        found = []
        for mark in sorted(marks):
            seen, members = (
                adoption.look(self.folders, mark),
                read_members(self.folders.path(*mark)),
            )
            found.append(
                messages.FoundAttempt(
                    id=mark,
                    alive=seen.alive,
                    action=seen.action,
                    never_was=seen.never_was,
                    ended=seen.status is not None and seen.status.ended,
                    changes=() if members is None else tuple(members["can"]),
                    part=_part_of(seen),
                    holds=seen.allocation(self.node.name),
                )
            )
        return messages.Surveyed(found=tuple(found))

    async def _announce(self, asked: messages.Announce) -> messages.Announced:
        self._refuse_older(asked.epoch)
        if self._announced[0] != asked.named:
            self._announced = (asked.named, {})
        self._announced[1][asked.batch] = asked.launches
        return messages.Announced()

    def _launches_of(self, asked: messages.TakeCharge) -> tuple[messages.Ordered, ...]:
        """All that it brings, also what was announced."""
        named, batches = self._announced
        if not asked.batches:
            return asked.launches
        if named != asked.named or len(batches) != asked.batches:  # By an agent before this one.
            raise EngineError(f"node {self.node.name} lacks a part of its orders", retryable=True)
        return (*(each for batch in batches.values() for each in batch), *asked.launches)

    async def _take_charge(self, asked: messages.TakeCharge) -> messages.Charged:
        async with self._taking:
            self._enter(asked.epoch)
            if self._lease.is_over:
                raise UnconfirmedError(self._doubts.why)
            await self._end_session()
            await self._relay.open()
            # In a thread: the lease is renewed meanwhile, though that folder may not answer.
            shared = await asyncio.to_thread(self.sees, asked.shared, asked.probe)
            launches = self._launches_of(asked)
            session = self._begin_session(asked, shared=shared)
            try:
                session.controls.allow(launches)
                closed = {each.device: each for each in asked.closed}
                await session.engine.adopt(
                    [job_of(row) for row in asked.rows], asked.attempts, closed
                )
            except BaseException:
                await session.engine.close()
                raise
            self._session, self._announced = session, ("", {})
            self._sweep(session)
            upto, root = session.controls.outbox.upto, str(session.checkpoints)
            return messages.Charged(session=session.id, upto=upto, shared=shared, root=root)

    def _sweep(self, session: Session) -> None:
        """Now and then, while a controller is in charge: it says where checkpoints are."""

        async def sweep() -> None:
            with suppress(OSError, EngineError):  # The session may have ended.
                await self._copies.sweep(session.id)

        if fence.now() >= self._sweep_at and (self._sweeping is None or self._sweeping.done()):
            self._sweep_at = fence.now() + SWEEP_EVERY_S
            self._sweeping = asyncio.get_running_loop().create_task(sweep())

    def _begin_session(self, asked: messages.TakeCharge, *, shared: bool) -> Session:
        checkpoints = Path(asked.shared).parent if shared else self.root
        around = with_fields(
            Surroundings.here(), lease=self._lease.path, checkpoints=checkpoints, moves=True
        )
        controls = NodeControls(
            self.root, lambda: self._relay.address, lambda: self._doubts.trouble
        )
        engine = LocalEngine(
            EngineContext(
                controls=controls, clock=AgentClock(), root=self.root, options=self._options
            ),
            devices=self._devices,
            node_name=self.node.name,
            around=around,
            excluded=self._excluded,
        )
        return Session(uuid4().hex, asked.epoch, controls, engine, checkpoints)

    def _roots(self, session: str) -> dict[str, Path]:
        """Where the folders are that are copied from node to node."""
        here = self._of(session).checkpoints
        own = {name: self.root / name for name in ("code", "work")}
        return {"checkpoints": here / "checkpoints", **own}

    async def _end_session(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.engine.close()

    def _doubt(self) -> messages.Doubt | None:
        for_s = self._lease.unconfirmed_s()
        return None if for_s is None else messages.Doubt(why=self._doubts.why, for_s=for_s)

    def _enter(self, epoch: int) -> None:
        self._refuse_older(epoch)
        if epoch > self._epoch:
            try:
                kept_value.write(self.root / "epoch", f"{epoch}")
            except OSError as error:
                raise EngineError(
                    f"node {self.node.name} cannot note its controller: {why_refused(error)}",
                    retryable=False,
                ) from None
            self._epoch = epoch

    def _refuse_older(self, epoch: int) -> None:
        """Refuse a controller that another one has followed."""
        if epoch < self._epoch:
            raise StaleEpochError(
                f"node {self.node.name} has taken orders of controller {self._epoch}, and this is "
                f"controller {epoch}",
                self._epoch,
            )

    def _read_epoch(self) -> int:
        path = self.root / "epoch"
        with suppress(OSError):
            kept_value.make(path)  # While there is room.
        with suppress(FileNotFoundError):
            return int(kept_value.read(path) or 0)
        return 0

    def _of(self, session: str) -> Session:
        if self._session is None:
            raise LostPlaceError(f"no controller is in charge of node {self.node.name}")
        self._session.check(session)
        return self._session

    def _token_of(self, job: JobId) -> str | None:
        """None while no controller has said which jobs run here."""
        return None if self._session is None else self._session.controls.token_of(job)

    def _answered(self, session: Session) -> messages.Answered:
        return messages.Answered(session=session.id, upto=session.controls.outbox.upto)

    # -- in charge ------------------------------------------------------------------------------

    async def _orders(self, asked: messages.Orders) -> messages.Answered:
        async with self._taking:
            session = self._of(asked.session)
            if asked.number > session.done + 1:
                raise LostPlaceError("a batch of orders is missing")
            if asked.number == session.done + 1:
                session.done = asked.number
                session.controls.allow(asked.launches)
                actions = [messages.action_of(each) for each in asked.actions]
                await session.engine.carry_out(self._allowed(session, actions))
            return self._answered(session)

    def _allowed(self, session: Session, actions: Sequence[Action]) -> list[Action]:
        """Those that are carried out: what would be killed with the lease goes back to the queue.

        The controller closes the node with the answer that has these facts.
        """
        if self._doubt() is None:
            return list(actions)
        for each in actions:
            if isinstance(each, Start):
                session.controls.tell(AttemptEnded(each.job, each.id, 0, How.STOPPED))
        return [each for each in actions if not isinstance(each, Start)]

    async def _prepare(self, asked: messages.Prepare) -> messages.Prepared:
        engine = self._of(asked.session).engine
        if self._doubt() is not None:
            return messages.Prepared(free=False, objection=self._doubts.why)
        order = Start(asked.order, asked.job, asked.allocation)
        give_up_at = fence.now() + asked.wait_s
        while engine.in_the_way(order):
            if engine.is_stuck(order):
                return messages.Prepared(free=False, objection="a process there does not die")
            if fence.now() >= give_up_at:
                return messages.Prepared(free=False)
            await asyncio.sleep(FREE_LOOK_S)
            engine = self._of(asked.session).engine
        objection = await engine.objection(order)
        port = 0 if objection else free_port(self.address)
        return messages.Prepared(free=not objection, objection=objection, port=port)

    async def _gone(self, asked: messages.GoneAsked) -> messages.Gone:
        """By the marks of attempts: the first thing of an attempt, and the last that goes."""
        give_up_at = fence.now() + asked.wait_s
        while True:
            left = {mark.job for mark in await asyncio.to_thread(self.folders.live)}
            gone = tuple(job for job in asked.jobs if job not in left)
            self._of(asked.session)  # The answer is of this session, or there is none.
            if gone or fence.now() >= give_up_at:
                return messages.Gone(jobs=gone)
            await asyncio.sleep(FREE_LOOK_S)

    async def _facts(self, asked: messages.FactsAsked) -> messages.FactsGiven:
        session = self._of(asked.session)
        outbox = session.controls.outbox
        await outbox.wait(asked.after, min(asked.wait_s, FACTS_WAIT_MAX_S))
        session = self._of(asked.session)
        self._sweep(session)
        (view,) = session.engine.view()
        await self._relay.open()  # If it could not before.
        reports, reports_upto = self._relay.given(asked.reports_after)
        return messages.FactsGiven(
            facts=tuple(messages.named(fact) for fact in outbox.after(asked.after)),
            upto=outbox.upto,
            view=with_fields(view, warning=self._doubts.trouble),
            measurements=tuple(session.engine.measurements()),
            now=fence.now(),
            reports=reports,
            reports_upto=reports_upto,
            doubt=self._doubt(),
        )

    async def _order_device(self, asked: messages.DeviceAsked) -> messages.Answered:
        session = self._of(asked.session)
        await session.engine.order_device(asked.device, asked.order)
        return self._answered(session)

    async def _order_node(self, asked: messages.NodeAsked) -> messages.Answered:
        session = self._of(asked.session)
        await session.engine.order_node(asked.node, asked.order)
        return self._answered(session)

    async def _tidy(self, asked: messages.JobAsked) -> Leftovers:
        """The controller has the end of the job: nothing of it is launched any more."""
        session = self._of(asked.session)
        session.controls.forget(asked.job)
        return await session.engine.tidy(asked.job)

    async def _discard(self, asked: messages.JobAsked) -> Leftovers:
        engine = self._of(asked.session).engine
        await asyncio.to_thread(discard_own, self.root, asked.job)
        return await engine.discard(asked.job)

    # -- output ---------------------------------------------------------------------------------

    async def _output(self, asked: messages.OutputAsked) -> messages.OutputGiven:
        if self._session is None:
            raise LostPlaceError(f"no controller is in charge of node {self.node.name}")
        reader = self._session.engine.outputs
        # Asked before reading: what an attempt wrote before it ended is then read as well.
        over = await reader.is_over(asked.attempt)
        found = await reader.read(asked.attempt, asked.rank, offset=asked.offset, limit=asked.limit)
        return messages.OutputGiven(output=found, over=over)

    async def _where(self, asked: messages.WhereAsked) -> messages.Whereabouts:
        def look() -> messages.Whereabouts:
            try:
                folder = self.folders.path(*asked.attempt)
            except EngineError:
                return messages.Whereabouts(there=False)
            if not is_folder(folder):
                return messages.Whereabouts(there=False)
            part = _part_of(adoption.left_by(asked.attempt, folder))
            return messages.Whereabouts(there=True, part=part)

        return await asyncio.to_thread(look)


def _part_of(found: adoption.Found) -> Part | None:
    """The part that a node has in an attempt on several, as its supervisor wrote it down."""
    written = None if found.supervisor is None else found.supervisor.part
    if written is None:
        return None
    return Part(**{**written, "addresses": tuple(written["addresses"])})
