"""The local engine: jobs as processes on this machine, under supervisors that outlive the engine.

Each order goes to the runner of its job (job_runner.py). The engine itself knows which attempt
holds which turn of which device. It launches nothing there before that attempt is gone and the
device is clean.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from treadle.core.actions import Action, Change, Stop
from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.cluster import Device, Node
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.events import AttemptEnded, DeviceClosed, Event
from treadle.core.job import Job, JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.machine import (
    DeviceOrder,
    Leftovers,
    Measurement,
    NodeOrder,
    NodeView,
    Output,
)
from treadle.engines.agent import adoption, end_facts
from treadle.engines.agent.adoption import Adoption, Found
from treadle.engines.agent.attempt_groups import AttemptGroups
from treadle.engines.agent.attempt_guard import USUAL, AttemptGuard, clear_group
from treadle.engines.agent.attempt_launch import AttemptLaunch
from treadle.engines.agent.device_choice import devices_of, excluded_by
from treadle.engines.agent.device_holders import DeviceHolders
from treadle.engines.agent.end_facts import NewestEnds, ended_of
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.live_changes import LiveChanges
from treadle.engines.agent.machine_pause import TROUBLE, MachinePause
from treadle.engines.agent.machine_view import node_view, watched
from treadle.engines.agent.node_gate import NodeGate
from treadle.engines.agent.output_reader import Coming, OutputReader
from treadle.engines.agent.patient_looks import PatientLooks
from treadle.engines.agent.trial_launch import TrialLaunch
from treadle.engines.agent.warm_pool import WarmPool
from treadle.engines.context import EngineContext
from treadle.engines.local.job_runner import JobRunner, Launching
from treadle.engines.node import attempt_folders, member_folders
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.cgroup import Containment
from treadle.engines.node.checkpoint_folders import CheckpointFolders
from treadle.engines.node.device_watch import DeviceWatch
from treadle.engines.node.devices import DeviceSource, node_of
from treadle.engines.node.fork_client import ForkServer
from treadle.engines.node.leftovers import LeftoverFolders
from treadle.engines.node.mps import Mps
from treadle.engines.node.observer import Observer
from treadle.engines.node.order_document import Surroundings
from treadle.engines.node.turn_link import TurnLink

TRIES_TO_MEET, TRIES_TO_READ = 16, 20  # of looks that are repeated soon: 4 s, 6 s

logger = logging.getLogger("treadle")


def local_engine(context: EngineContext) -> "LocalEngine":
    """The engine as the options of `treadle up` describe it."""
    devices = devices_of(context.options)
    return LocalEngine(
        context,
        devices=devices,
        node_name=context.options.node_name,
        excluded=excluded_by(context.options, devices),
    )


class LocalEngine:
    """Carries out orders on this machine."""

    def __init__(
        self,
        context: EngineContext,
        *,
        devices: DeviceSource,
        node_name: str,
        around: Surroundings | None = None,
        excluded: Collection[int] = (),
    ) -> None:
        self.folders = AttemptFolders(context.root)
        self.fork_server = ForkServer()
        self._controls, self._clock, self.address = context.controls, context.clock, ""
        self._node = node_of(devices, node_name)
        self._devices = devices
        self.device_watch = DeviceWatch(
            devices,
            node_name,
            instance=self.folders.instance,
            clock=context.clock,
            report=self.tell,
            excluded=excluded,
        )
        self.device_watch.supervisors = self._supervisors
        self._holders = DeviceHolders(self.device_watch, self._wake_runners)
        self.device_watch.held = self._holders.numbers
        self.machine = MachinePause(
            TrialLaunch(context.root, self.fork_server), context.clock, self.device_watch.pause
        )
        self.observer = Observer(
            devices, context.clock, lambda: watched(self._holders.by_slot, self._node, self.mps)
        )
        self.gate = NodeGate(context.root, self._node, self.tell)
        around = replace(around or Surroundings.here(), beside=devices.beside)
        kept = around.checkpoints or context.root
        self._checkpoints = CheckpointFolders(kept, recorded=around.moves)
        self._leftovers = LeftoverFolders(self.folders, self._checkpoints)
        self.outputs = OutputReader(self.folders, context.clock, self._coming)
        turns = TurnLink(context.options.turns)
        self.groups = AttemptGroups(self.folders, Containment(around.cgroups))
        self.mps = Mps.here(context.root, self.folders.instance, devices.kind)
        self.warm = WarmPool(
            self.folders, self.groups.containment, self.fork_server, enabled=context.options.warm
        )
        parts = (self.fork_server, devices.uuids, around, self.mps, self.warm, turns)
        self._launch = AttemptLaunch(
            self.folders, self.groups, self._checkpoints, self._leftovers, *parts
        )
        self.changes = LiveChanges(self._launch, self._holders)
        self._looks = PatientLooks(context.clock, self.suspect)
        self.deadlines = USUAL  # after which the engine acts in a supervisor's place
        self._runners: dict[JobId, JobRunner] = {}
        self._ends = NewestEnds()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- the controller's side ------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        return (self._node,)

    def view(self) -> tuple[NodeView, ...]:
        return (
            node_view(self.gate, self._holders.by_slot, self.device_watch, self.groups.containment),
        )

    async def adopt(
        self,
        jobs: Sequence[Job],
        attempts: Sequence[AttemptId] = (),
        closed: Mapping[Device, DeviceClosed] = MappingProxyType({}),
        nodes: Mapping[AttemptId, Collection[str]] = MappingProxyType({}),  # noqa: ARG002
    ) -> None:
        """After a restart: watch what runs, report what ended, carry out what is owed.

        An end may be reported a second time, if the controller was killed before it wrote the
        first report down.
        """
        self.device_watch.restore(closed)
        self.gate.begin()
        self.device_watch.begin()
        self.observer.begin()
        self._keep(self.mps.watch(self._clock))
        self._keep(self.warm.clear())
        plan = await self._plan(list(jobs), attempts)
        for found in plan.over:
            self.tell(ended_of(found, how=How.REPLACED))
        # All that is alive holds its devices before anything is launched.
        for each in plan.jobs:
            await self._adopt(each)
        for stray in plan.strays:
            await self._adopt_stray(stray, silent=stray.id not in attempts)
        for each in plan.jobs:
            if each.owed is not None:
                self._runner(each.job).order(each.owed, [])

    async def carry_out(self, actions: Sequence[Action]) -> None:
        self.device_watch.begin()
        self.observer.begin()
        for action in actions:
            behind: list[LiveAttempt] = []
            runner = self._runners.get(action.job)
            is_idle = runner is None or not runner.busy
            if is_idle and self._has_ended(action):
                continue
            if not isinstance(action, Stop):
                others = (self._runners.get(job) for job in action.after)
                behind = [live for other in others if other and (live := other.attempt)]
            self._runner(action.job).order(action, behind)

    async def output(
        self, attempt: AttemptId, rank: int, *, offset: int = 0, limit: int = 65536
    ) -> Output:
        return await self.outputs.read(attempt, rank, offset=offset, limit=limit)

    def follow(self, attempt: AttemptId, rank: int, *, offset: int = 0) -> AsyncIterator[Output]:
        return self.outputs.follow(attempt, rank, offset=offset)

    async def order_device(self, device: Device, order: DeviceOrder) -> None:
        if device.node != self._node.name or not 0 <= device.number < self._node.device_count:
            raise InvalidInputError(f"there is no device {device}")
        if order is DeviceOrder.AVOID:
            self.device_watch.avoid(device.number)
        else:
            self.device_watch.manage(device.number)

    async def order_node(self, node: str, order: NodeOrder) -> None:
        self.gate.order(node, order)

    def measurements(self) -> Sequence[Measurement]:
        return self.observer.measurements()

    def checkpoints(self, job: JobId, submission: str = "") -> str:
        return str(self._checkpoints.path(job, submission))

    async def tidy(self, job: JobId) -> Leftovers:
        if job in self._runners:  # It has not ended here.
            return Leftovers()
        return await asyncio.to_thread(self._leftovers.tidy, job)

    async def discard(self, job: JobId) -> Leftovers:
        if job in self._runners:
            return Leftovers()
        return await asyncio.to_thread(self._leftovers.discard, job)

    async def close(self) -> None:
        """Stop watching; jobs run on."""
        for runner in list(self._runners.values()):
            await runner.leave()
        self._runners.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.machine.close()
        await self.device_watch.close()
        await self.observer.close()
        await self.warm.close()
        self._launch.turns.close()
        await asyncio.to_thread(self.fork_server.close)

    # -- adopting -------------------------------------------------------------------------------

    async def _plan(self, jobs: list[Job], attempts: Sequence[AttemptId]) -> adoption.Plan:
        """What to do about each job. Without the files of attempts nothing may be launched."""

        def look() -> adoption.Plan:
            plan = adoption.plan(self.folders, jobs, attempts)
            self.groups.sweep(plan)
            return plan

        try:
            return await self._looks.until(look, lambda _: True, tries=TRIES_TO_READ)
        except OSError as error:
            raise EngineError(
                f"the attempts under {self.folders.root} cannot be read: {error}; what runs keeps "
                "running, start again when they can be",
                retryable=True,
            ) from None

    async def _adopt(self, adopted: Adoption) -> None:
        if adopted.found is None:
            return
        live = await self._rejoin(adopted.found, adopted.allocation)
        runner = self._runner(adopted.job)
        runner.adopt(live, adopted.newest)
        if adopted.starting and adopted.owed is None:
            # The files know the devices and the turn; the plan and the host share are the job's.
            live.allocation = adopted.allocation or live.allocation
            runner.announce(live)

    async def _adopt_stray(self, stray: Found, *, silent: bool) -> None:
        """Stop an attempt that no job knows; a dead one may have left processes behind.

        Nor may one begin later: a supervisor that was only slow finds that the attempt has ended.
        """
        if stray.status is not None and stray.status.ended and not stray.alive:
            await asyncio.to_thread(self.folders.forget, *stray.id)
            return
        if stray.alive:
            logger.warning(
                "attempt %d of job %s runs in %s and belongs to no job of this store; it is "
                "stopped",
                stray.number,
                stray.job,
                stray.folder,
            )
        live = await self._rejoin(stray)
        if live.gone.done():
            self._holders.hold(live)  # No other job gets its devices before it is gone.
        live.stray, live.silent = True, silent or not stray.alive
        runner = self._runner(stray.job)
        if runner.live is not None:  # Another attempt of that job is alive as well.
            runner = JobRunner(stray.job, self)
        runner.adopt(live, -1)

    async def _rejoin(self, found: Found, ordered: Allocation | None = None) -> LiveAttempt:
        """Watch an attempt of an earlier engine again; it is gone if its supervisor is.

        ordered: what it holds if its files do not say.
        """
        if found.alive and found.supervisor is None:  # It is just beginning.
            found = await self._looks.until(
                lambda: adoption.look(self.folders, found.id),
                lambda seen: not seen.alive or seen.supervisor is not None,
                tries=TRIES_TO_MEET,
            )
        live = LiveAttempt(
            found.job,
            found.number,
            action=found.action,
            allocation=found.allocation(self._node.name) or ordered,
            folder=found.folder,
            tag=self.groups.tag_of(found),
            scope=self.groups.scope_of(found),
            nonce=found.id.nonce,
        )
        live.on_undying = self._holders.undying
        if (known := found.supervisor) is not None:
            live.workdir, live.grace_s = known.workdir, known.grace_s
            live.time_limit_s = known.time_limit_s
            if found.status is not None:
                live.time_limit_s = found.status.left_of(
                    known.time_limit_s, asyncio.get_running_loop().time()
                )
        supervisor = found.supervisor if found.alive else None
        live.watch(None if supervisor is None else supervisor.process)
        if not live.gone.done():
            await asyncio.to_thread(self.mps.adopt, live.id, live.folder)
            await self.changes.look(live)
            live.hold_members()
            self._holders.hold(live)
            self._keep(self.changes.watch(live))
            self._keep(self._make_ready(live))
            self._guard(live)
        return live

    async def _make_ready(self, live: LiveAttempt) -> None:
        """Its pipe ended with the earlier engine: its status says when its ranks run."""
        status = await self._looks.until(
            lambda: attempt_folders.read_status(live.folder),
            lambda status: status is not None or live.gone.done(),
            tries=None,
        )
        if not live.gone.done():
            live.set_ready(running=True, started_at=status.started_at if status else None)

    # -- the runners' side ----------------------------------------------------------------------

    def tell(self, fact: Event) -> None:
        if isinstance(fact, AttemptEnded):
            self._ends.add(fact)
        self._controls.tell(fact)

    def ask(self, order: Launching) -> Launch:
        return self._controls.launch(order.job, order.id, order.allocation)

    def in_the_way(self, order: Launching) -> list[LiveAttempt]:
        return self._holders.of(order.allocation)

    def is_stuck(self, order: Launching) -> bool:
        return self._holders.are_stuck(order.allocation)

    async def objection(self, order: Launching) -> str:
        numbers = [device.number for device in order.allocation.devices]
        return self.gate.objection(order) or await self.device_watch.objection(numbers)

    def attempt(self, order: Launching, launch: Launch) -> LiveAttempt:
        """The attempt that is launched next. It holds its devices from here on."""
        live = self._launch.attempt(launch, order.allocation, action=order.id)
        live.on_undying = self._holders.undying
        self._holders.hold(live)
        return live

    async def launch(self, live: LiveAttempt) -> None:
        try:
            await self._launch.run(live)
        except (*TROUBLE, EngineError):
            self._holders.free(live)
            raise
        self._guard(live, self.fork_server)

    async def suspect(self) -> None:
        await self.machine.suspect()

    async def rival(self, live: LiveAttempt) -> LiveAttempt | None:
        found = await self._looks.seen(lambda: adoption.look(self.folders, live.id))
        if not found.alive:
            return None
        other = await self._rejoin(found, live.allocation)
        other.launch = live.launch
        self._holders.free(live)
        return other

    async def end_of(self, live: LiveAttempt) -> AttemptEnded | None:
        """How it ended, from its folder; survivors of a killed supervisor are killed first.

        None if another supervisor has it (`taken`). While its files cannot be read, it is not known
        to be over, and keeps its devices.
        """
        found = await self._looks.seen(lambda: self._left_by(live))
        unsaid = found.status is None or not found.status.ended
        ended = ended_of(
            found, action=live.action, failure=live.failure, lacked=live.lacked, ranks=live.ranks
        )
        if ended.how is How.MACHINE_ERROR:
            await self.suspect()
        ended = live.as_told(ended, unsaid=unsaid)
        if unsaid:
            await clear_group(live, self.deadlines)
            if not await asyncio.to_thread(end_facts.seal, live.folder, ended):
                live.taken = True
                return None
        return ended

    async def release(self, live: LiveAttempt) -> None:
        """Its end has been reported: other jobs may have its devices once they are clean."""
        if live.marked:  # Its supervisor was killed, or there was none.
            await asyncio.to_thread(self._forget, live)
            await asyncio.to_thread(member_folders.remove_of, live.tag)
        if self.mps.is_client(live.id):
            await asyncio.to_thread(self.mps.leave, live.id)
        if self._devices.watched:
            self._keep(self._clean_and_free(live))
        else:
            self._holders.free(live)

    def retire(self, runner: JobRunner) -> None:
        if self._runners.get(runner.job) is runner:
            del self._runners[runner.job]

    # -- leaves ---------------------------------------------------------------------------------

    def _left_by(self, live: LiveAttempt) -> Found:
        """What it left. If that says how it ended, its mark is not needed any more."""
        found = adoption.left_by(live.id, live.folder)
        if found.status is not None and found.status.ended:
            self._forget(live)
        return found

    def _forget(self, live: LiveAttempt) -> None:
        self.folders.forget(*live.id)
        if live.process is None:  # Otherwise its supervisor did.
            live.scope.remove()
        live.marked = False

    def _has_ended(self, action: Action) -> bool:
        """Whether the job ended while the order was written down; the order is then answered.

        A Start that follows a Stop of the same list (the job is in its own `after`) is a change as
        well. It begins a new hold in the scheduler, so the end is repeated under its id.
        """
        if isinstance(action, Change):
            self.tell(AttemptEnded(action.job, action.id, 0, How.STOPPED))
            return True
        if isinstance(action, Stop) or action.job not in action.after:
            return False
        return self._ends.repeat(action, self.tell)

    async def _clean_and_free(self, live: LiveAttempt) -> None:
        numbers = {number for number, _ in live.slots}
        live.over = True
        await self.device_watch.clean(numbers, live.tag, job=live.job)
        self._holders.free(live)

    def _wake_runners(self) -> None:
        for runner in list(self._runners.values()):
            runner.devices_were_released()

    def _coming(self, attempt: AttemptId) -> Coming:
        runner = self._runners.get(attempt.job)
        if runner is None:
            return Coming()
        live = runner.attempt
        if live is not None and live.id == attempt:
            return Coming(live.ranks or 1)
        return Coming(owed=runner.launching)

    def _runner(self, job: JobId) -> JobRunner:
        if job not in self._runners:
            self._runners[job] = JobRunner(job, self)
        return self._runners[job]

    def _keep(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run it as a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _guard(self, live: LiveAttempt, fork_server: ForkServer | None = None) -> None:
        """Watch over the attempt until its supervisor is gone.

        From the first trouble on, or after a while: most attempts of less than that need no guard.
        """
        guard = AttemptGuard(live, fork_server, self.deadlines)
        live.guard_by(lambda: self._keep(guard.run()), after_s=self.deadlines.first_s)

    def _supervisors(self) -> list[int]:
        lives = (runner.live for runner in self._runners.values())
        return [live.process.pid for live in lives if live is not None and live.process is not None]
