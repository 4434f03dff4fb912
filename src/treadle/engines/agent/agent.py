"""The agent of one node: a controller says what it wants of attempts there, and hears of them.

Each controller that takes charge begins a session (session.py). The session before is closed, which
leaves its supervisors running, and the fresh one takes them over.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace as with_fields
from pathlib import Path
from typing import Any
from uuid import uuid4

from treadle.core.attempt import How
from treadle.core.cluster import Node
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.events import AttemptEnded
from treadle.core.job import JobId
from treadle.core.job_report import JobReport
from treadle.core.launch import AttemptId, Launch
from treadle.engines.agent import messages, wire
from treadle.engines.agent.agent_errors import LostPlaceError, StaleEpochError, UnconfirmedError
from treadle.engines.agent.archives import Archives
from treadle.engines.agent.found import alive, any_runs, left_by, look
from treadle.engines.agent.grants import finite
from treadle.engines.agent.machine import Machine, MachineParts
from treadle.engines.agent.node_grant import GrantDoubts, NodeGrant
from treadle.engines.agent.output_reader import as_engine_error
from treadle.engines.agent.report_relay import ReportRelay
from treadle.engines.agent.session import API_URL, AgentClock, Session
from treadle.engines.context import EngineOptions
from treadle.engines.node import fence, kept_value
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.devices import DeviceSource, node_of
from treadle.engines.node.environment import free_port
from treadle.engines.node.order_document import Surroundings
from treadle.engines.node.processes import boot_id, hardware_id
from treadle.files import is_folder, why_refused

FREE_LOOK_S = 0.05  # between looks whether devices are free
FACTS_WAIT_MAX_S = 30.0
SWEEP_EVERY_S = 3600.0  # archives that no job needs

logger = logging.getLogger("treadle")


class Agent:
    """Lives on the event loop of its process; one for each node and root.

    The process that has it calls `confirm` every CONFIRM_EVERY_S while the cluster says that the
    node is a member, passes what the controller asks to `ask` or `call`, and may be killed at any
    moment: what runs keeps running until the last confirmation has run out, and the agent that is
    made next over the same root takes it over.
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
        grant: NodeGrant | None = None,
    ) -> None:
        """root: a folder of its own on this node. address: of this node, for the other nodes.

        grant: None on the controller's own machine, where no cluster confirms anything, and jobs
        report to the controller itself.
        """
        self.root, self.address = root, address
        self.node: Node = node_of(devices, node_name)
        self.folders = AttemptFolders(root)
        # Another one if attempts of before cannot run here, or are not known here.
        self.machine = f"{hardware_id()}/{boot_id()}/{self.folders.instance}"
        self._devices, self._excluded = devices, excluded
        self._options = options or EngineOptions()
        self._grant = grant
        self._doubts = GrantDoubts(node_name)
        self.epoch = self._read_epoch()
        self.session: Session | None = None
        self._held = ""  # why the cluster wants nothing new here
        self._announced: dict[AttemptId, messages.Wanted] = {}  # for the next `TakeCharge`
        self._taking = asyncio.Lock()
        self._sweep_at = 0.0
        self._sweeping: asyncio.Task[None] | None = None
        self._relay = None if grant is None else ReportRelay(root, self._token_of)
        self._archives = Archives(root, self.has_folder)
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
            "archive": self._archive,
        }

    def confirm(self, asked_at: float | None = None) -> None:
        """The cluster says that this node is a member: what runs may run for another while.

        asked_at: when the cluster was asked, by engines.node.fence.now(); by default now.
        """
        if self._grant is None:
            return
        try:
            lasted = self._grant.renew(asked_at)
        except OSError as error:
            self._doubts.not_written(error)
            return
        session = self.session
        if not lasted and session is not None:
            session.over = "the grant of the node had run out"
        self._doubts.confirmed(lasts=lasted and session is not None and not session.over)

    def doubt(self, why: str) -> None:
        """The cluster did not confirm this node when it was asked: a sentence why."""
        self._doubts.doubt(why)

    def hold(self, why: str) -> None:
        """Begin nothing new, because the cluster wants that; empty: it does not any more."""
        self._held = why
        if self.session is not None:
            self.session.machine.gate.hold(why)

    async def ask(self, verb: str, asked: object) -> object:
        """Carry out what the controller asks. Raises InvalidInputError and EngineError."""
        try:
            return await self._verbs[verb](asked)
        except (InvalidInputError, EngineError):
            raise
        except Exception as error:  # the controller must hear of it, whatever it is
            logger.exception("the agent of node %s failed at %s", self.node.name, verb)
            raise EngineError(f"the agent failed: {error!r}", retryable=False) from None

    async def call(self, verb: str, document: bytes) -> bytes:
        """The same for a controller elsewhere. It never raises: errors are answers too."""
        if verb not in self._verbs:
            return wire.refusal(InvalidInputError(f"an agent has no verb {verb[:40]!r}"))
        try:
            asked = wire.decode(document, messages.VERBS[verb][0])
            return wire.answer(await self.ask(verb, asked))
        except Exception as error:
            return wire.refusal(error)

    def sees(self, path: str, content: str) -> bool:
        """Whether a path on this node leads to a file that the controller wrote."""
        with suppress(OSError):
            return bool(path) and Path(path).read_text() == content
        return False

    def has_folder(self, path: str) -> bool:
        """Whether a path on this node is that of a folder."""
        return is_folder(Path(path))

    def runs(self) -> bool:
        """Whether an attempt is alive here."""
        return any_runs(self.folders)

    def running(self) -> dict[JobId, int]:
        """Ranks that run here, by job."""
        statuses = {each.job: each.status for each in alive(self.folders)}
        return {job: 0 if status is None else len(status.codes) for job, status in statuses.items()}

    async def close(self) -> None:
        """Leave; what runs keeps running."""
        if self._relay is not None:
            self._relay.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        async with self._taking:
            await self._end_session()

    # -- taking charge --------------------------------------------------------------------------

    async def _survey(self, asked: messages.Survey) -> messages.Surveyed:
        async with self._taking:
            if asked.epoch != self.epoch:
                await asyncio.to_thread(self._enter, asked.epoch)
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
        seen = (look(self.folders, mark) for mark in sorted(marks))
        found = (
            messages.FoundAttempt(
                id=each.id,
                alive=each.alive,
                action=each.action,
                never_was=each.never_was,
                ended=each.ended,
                changes=each.changes,
                part=each.part,
                holds=each.allocation(self.node.name),
            )
            for each in seen
        )
        return messages.Surveyed(found=tuple(found))

    async def _announce(self, asked: messages.Announce) -> messages.Announced:
        self._refuse_older(asked.epoch)
        self._announced |= {each.attempt: each for each in asked.wanted}
        return messages.Announced()

    def _wanted_of(self, asked: messages.TakeCharge) -> tuple[messages.Wanted, ...]:
        """All that it brings, also what was announced."""
        announced, self._announced = self._announced, {}
        if len(announced) != asked.announced:  # To an agent before this one, or by another call.
            raise EngineError(f"node {self.node.name} lacks a part of its orders", retryable=True)
        return (*announced.values(), *asked.wanted)

    async def _take_charge(self, asked: messages.TakeCharge) -> messages.Charged:
        async with self._taking:
            await asyncio.to_thread(self._enter, asked.epoch)
            if self._grant is not None and self._grant.is_over:
                raise UnconfirmedError(self._doubts.why)
            await self._end_session()
            if self._relay is not None:
                await self._relay.open()
            # In a thread: the grant is renewed meanwhile, though that folder may not answer.
            shared = self._grant is None or await asyncio.to_thread(
                self.sees, asked.shared, asked.probe
            )
            wanted = self._wanted_of(asked)
            session = await asyncio.to_thread(self._begin_session, asked, shared=shared)
            session.note(wanted)
            try:
                await session.machine.begin(wanted, asked.over, asked.closed)
            except BaseException:
                await session.machine.close()
                raise
            self.session = session
            self._sweep(session)
            return messages.Charged(
                session=session.id,
                upto=session.outbox.upto,
                shared=shared,
                failover_s=None if self._grant is None else finite(self._grant.failover_s),
            )

    def _sweep(self, session: Session) -> None:
        """Now and then, while a controller is in charge: it says what runs."""

        async def sweep() -> None:
            runs = (run.live for run in session.machine.runs.values())
            used = {live.workdir for live in runs if live is not None}
            with suppress(OSError):
                await self._archives.sweep(used)

        if fence.now() >= self._sweep_at and (self._sweeping is None or self._sweeping.done()):
            self._sweep_at = fence.now() + SWEEP_EVERY_S
            self._sweeping = asyncio.get_running_loop().create_task(sweep())

    def _begin_session(self, asked: messages.TakeCharge, *, shared: bool) -> Session:
        checkpoints = Path(asked.shared).parent if shared else self.root
        around = with_fields(
            Surroundings.here(),
            beside=self._devices.beside,
            grant=None if self._grant is None else self._grant.path,
            checkpoints=checkpoints,
            node=self.node.name,
            address="" if self._grant is None else self.address,
        )
        session = Session(uuid4().hex, lambda: self._doubts.trouble)
        session.machine = Machine(
            MachineParts(
                root=self.root,
                node=self.node,
                devices=self._devices,
                excluded=self._excluded,
                options=self._options,
                around=around,
                clock=AgentClock(),
                tell=session.tell,
                fitted=self._fitted,
            )
        )
        session.machine.gate.hold(self._held)
        return session

    def _fitted(self, launch: Launch) -> Launch:
        """As it is launched on this node, which may not see its folder.

        It reports to the agent, if a socket of the controller's machine leads nowhere here.
        """
        if self._relay is None:
            return launch
        env = {name: value for name, value in launch.env.items() if name != API_URL}
        if API_URL in launch.env and self._relay.address:
            env[API_URL] = self._relay.address
        return with_fields(self._archives.fitted(launch), env=env)

    async def _archive(self, asked: messages.Archive) -> messages.ArchiveTaken:
        self._of(asked.session)
        return await self._archives.take(asked)

    async def _end_session(self) -> None:
        if self.session is not None:
            session, self.session = self.session, None
            await session.machine.close()

    def _doubt(self) -> messages.Doubt | None:
        for_s = None if self._grant is None else self._grant.unconfirmed_s()
        return None if for_s is None else messages.Doubt(why=self._doubts.why, for_s=for_s)

    def _enter(self, epoch: int) -> None:
        self._refuse_older(epoch)
        if epoch > self.epoch:
            try:
                kept_value.write(self.root / "epoch", f"{epoch}")
            except OSError as error:
                raise EngineError(
                    f"node {self.node.name} cannot note its controller: {why_refused(error)}",
                    retryable=False,
                ) from None
            self.epoch = epoch

    def _refuse_older(self, epoch: int) -> None:
        """Refuse a controller that another one has followed."""
        if epoch < self.epoch:
            raise StaleEpochError(
                f"node {self.node.name} has taken orders of controller {self.epoch}, and this is "
                f"controller {epoch}",
                self.epoch,
            )

    def _read_epoch(self) -> int:
        path = self.root / "epoch"
        with suppress(OSError):
            kept_value.make(path)  # While there is room.
        with suppress(FileNotFoundError):
            return int(kept_value.read(path) or 0)
        return 0

    def _of(self, session: str) -> Session:
        if self.session is None:
            raise LostPlaceError(f"no controller is in charge of node {self.node.name}")
        self.session.check(session)
        return self.session

    def _token_of(self, job: JobId) -> str | None:
        """None while no controller has said which jobs run here."""
        return None if self.session is None else self.session.tokens.get(job, "")

    def _answered(self, session: Session) -> messages.Answered:
        return messages.Answered(session=session.id, upto=session.outbox.upto)

    # -- in charge ------------------------------------------------------------------------------

    async def _orders(self, asked: messages.Orders) -> messages.Answered:
        async with self._taking:
            session = self._of(asked.session)
            if asked.number > session.done + 1:
                raise LostPlaceError("a batch of orders is missing")
            if asked.number == session.done + 1:
                session.done = asked.number
                session.note(asked.wanted)
                for each in self._allowed(session, asked.wanted):
                    session.machine.order(each)
            return self._answered(session)

    def _allowed(
        self, session: Session, wanted: Sequence[messages.Wanted]
    ) -> Sequence[messages.Wanted]:
        """Those that are carried out: what has no grant goes back to the queue.

        The controller closes the node with the answer that has these facts.
        """
        if self._doubt() is None:
            return wanted
        runs = session.machine.runs
        begun = [each for each in wanted if each.attempt in runs or each.allocation is None]
        for each in [each for each in wanted if each not in begun]:
            session.tell(AttemptEnded(each.attempt.job, each.action, 0, How.STOPPED))
        return begun

    async def _prepare(self, asked: messages.Prepare) -> messages.Prepared:
        machine = self._of(asked.session).machine
        if self._doubt() is not None:
            return messages.Prepared(free=False, objection=self._doubts.why)
        give_up_at, wanted = fence.now() + asked.wait_s, asked.allocation
        while wanted is not None and machine.in_the_way(wanted):
            if machine.is_stuck(wanted):
                return messages.Prepared(free=False, objection="a process there does not die")
            if fence.now() >= give_up_at:
                return messages.Prepared(free=False)
            await asyncio.sleep(FREE_LOOK_S)
            machine = self._of(asked.session).machine
        objection = "" if wanted is None else await machine.objection(wanted)
        if objection:
            return messages.Prepared(free=False, objection=objection)
        port, lead_port = free_port(self.address), free_port(self.address)
        return messages.Prepared(free=True, port=port, lead_port=lead_port)

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
        outbox = session.outbox
        await outbox.wait(asked.after, min(asked.wait_s, FACTS_WAIT_MAX_S))
        session = self._of(asked.session)
        if self._grant is not None:
            with suppress(OSError):
                self._grant.keep()
        self._sweep(session)
        reports: tuple[tuple[JobReport, ...], int] = (), 0
        if self._relay is not None:
            await self._relay.open()  # If it could not before.
            reports = self._relay.given(asked.reports_after)
        facts = tuple(outbox.after(asked.after))
        view = session.machine.view() if session.is_due(facts) else None
        return messages.FactsGiven(
            facts=facts,
            upto=outbox.upto,
            view=None if view is None else with_fields(view, warning=self._doubts.trouble),
            measurements=tuple(session.machine.measurements()),
            now=fence.now(),
            reports=reports[0],
            reports_upto=reports[1],
            doubt=self._doubt(),
        )

    async def _order_device(self, asked: messages.DeviceAsked) -> messages.Answered:
        session = self._of(asked.session)
        session.machine.order_device(asked.device, asked.order)
        return self._answered(session)

    async def _order_node(self, asked: messages.NodeAsked) -> messages.Answered:
        session = self._of(asked.session)
        session.machine.gate.order(asked.order)
        return self._answered(session)

    async def _tidy(self, asked: messages.JobsAsked) -> messages.JobsLeft:
        session = self._of(asked.session)
        for job in asked.jobs:
            session.tokens.pop(job, None)
        return messages.JobsLeft(left=await session.machine.tidy(asked.jobs))

    async def _discard(self, asked: messages.JobsAsked) -> messages.JobsLeft:
        machine = self._of(asked.session).machine
        return messages.JobsLeft(left=await machine.discard(asked.jobs))

    # -- output ---------------------------------------------------------------------------------

    async def _output(self, asked: messages.OutputAsked) -> messages.OutputGiven:
        if self.session is None:
            raise LostPlaceError(f"no controller is in charge of node {self.node.name}")
        reader = self.session.machine.outputs
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
            part = left_by(asked.attempt, folder).part
            return messages.Whereabouts(there=True, part=part)

        with as_engine_error(asked.attempt):
            return await asyncio.to_thread(look)
