"""The local engine: jobs as processes on this machine, under supervisors that outlive the engine.

Each order goes to the runner of its job (job_runner.py). The engine itself knows which attempt
holds which turn of which device. It launches nothing there before that attempt is gone and the
device is clean.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
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
from treadle.core.machine import DeviceOrder, DeviceView, Measurement, NodeView, Output
from treadle.engines.local import adoption
from treadle.engines.local.adoption import Adoption, Found
from treadle.engines.local.device_choice import devices_of, excluded_by
from treadle.engines.local.end_facts import NewestEnds, ended_of
from treadle.engines.local.job_runner import JobRunner, Launching
from treadle.engines.local.live_attempt import LiveAttempt
from treadle.engines.local.looking import Looking
from treadle.engines.local.machine_pause import MachinePause
from treadle.engines.local.output_reader import OutputReader
from treadle.engines.local.trial_launch import TrialLaunch
from treadle.engines.node import attempt_folders, processes
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.cgroup import Scopes
from treadle.engines.node.checkpoint_folders import CheckpointFolders
from treadle.engines.node.device_watch import DeviceWatch
from treadle.engines.node.devices import DeviceSource, node_of
from treadle.engines.node.environment import TAG
from treadle.engines.node.fork_client import ForkServer
from treadle.engines.node.order_document import Paths, Surroundings, order_document
from treadle.engines.registry import EngineContext
from treadle.files import is_folder

# Tries of a look that is repeated soon; the pauses grow from 2 ms to half a second.
TRIES_TO_MEET = 16  # 4 s
TRIES_TO_KILL = 200  # 100 s
TRIES_TO_READ = 20  # 6 s


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
        self._controls = context.controls
        self._clock = context.clock
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
        self.device_watch.held = self._held
        self.machine = MachinePause(
            TrialLaunch(context.root, self.fork_server), context.clock, self.device_watch.pause
        )
        self._looking = Looking(context.clock, self.suspect)
        self._checkpoints = CheckpointFolders(context.root)
        self._output = OutputReader(self.folders, context.clock, self._begins)
        self._around = around or Surroundings.here()
        self._scopes = Scopes(self._around.cgroup)
        self._runners: dict[JobId, JobRunner] = {}
        self._holders: dict[tuple[int, int], LiveAttempt] = {}  # by (device, turn)
        self._ends = NewestEnds()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- the controller's side ------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        return (self._node,)

    def view(self) -> tuple[NodeView, ...]:
        jobs: dict[int, list[str]] = {}
        for (number, _), live in sorted(self._holders.items(), key=lambda item: item[0]):
            jobs.setdefault(number, []).append(live.job)

        def shown(device: Device) -> DeviceView:
            return self.device_watch.view(device.number, tuple(jobs.get(device.number, ())))

        return (NodeView.of(self._node, shown),)

    async def adopt(
        self,
        jobs: Sequence[Job],
        attempts: Sequence[AttemptId] = (),
        closed: Mapping[Device, DeviceClosed] = MappingProxyType({}),
    ) -> None:
        """After a restart: watch what runs, report what ended, carry out what is owed.

        An end may be reported a second time, if the controller was killed before it wrote the
        first report down.
        """
        self.device_watch.restore(closed)
        self.device_watch.begin()
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
        for action in actions:
            behind: list[LiveAttempt] = []
            runner = self._runners.get(action.job)
            is_idle = runner is None or not runner.busy
            if is_idle and self._has_ended(action):
                continue
            if not isinstance(action, Stop):
                others = (self._runners.get(job) for job in action.after)
                behind = [other.live for other in others if other is not None and other.live]
            self._runner(action.job).order(action, behind)

    async def output(
        self, attempt: AttemptId, rank: int, *, offset: int = 0, limit: int = 65536
    ) -> Output:
        return await self._output.read(attempt, rank, offset=offset, limit=limit)

    def follow(self, attempt: AttemptId, rank: int, *, offset: int = 0) -> AsyncIterator[Output]:
        return self._output.follow(attempt, rank, offset=offset)

    async def order_device(self, device: Device, order: DeviceOrder) -> None:
        if device.node != self._node.name or not 0 <= device.number < self._node.device_count:
            raise InvalidInputError(f"there is no device {device}")
        if order is DeviceOrder.AVOID:
            self.device_watch.avoid(device.number)
        else:
            self.device_watch.manage(device.number)

    def measurements(self) -> Sequence[Measurement]:
        """How busy devices are; attempts that share a device share its busy time evenly."""
        running = {live.id: live for live in self._holders.values() if live.runs}
        sharers = Counter(number for live in running.values() for number, _ in live.slots)
        found = []
        for identity, live in running.items():
            seen = [(self.device_watch.busy(number), sharers[number]) for number, _ in live.slots]
            shares = [busy / sharing for busy, sharing in seen if busy is not None]
            found.append(Measurement(identity, sum(shares) / len(shares) if shares else None))
        return found

    def checkpoints(self, job: JobId) -> str:
        return str(self._checkpoints.path(job))

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
        await asyncio.to_thread(self.fork_server.close)

    # -- adopting -------------------------------------------------------------------------------

    async def _plan(self, jobs: list[Job], attempts: Sequence[AttemptId]) -> adoption.Plan:
        """What to do about each job. Without the files of attempts nothing may be launched."""
        try:
            return await self._looking.until(
                lambda: adoption.plan(self.folders, jobs, attempts),
                lambda _: True,
                tries=TRIES_TO_READ,
            )
        except OSError as error:
            raise EngineError(
                f"the attempts under {self.folders.root} cannot be read: {error}; what runs keeps "
                "running, start again when they can be",
                retryable=True,
            ) from None

    async def _adopt(self, adopted: Adoption) -> None:
        if adopted.found is None:
            return
        live = await self._rejoin(adopted.found)
        runner = self._runner(adopted.job)
        runner.adopt(live, adopted.newest)
        if adopted.starting and adopted.owed is None:
            # The files know the devices and the turn; the plan and the host share are the job's.
            live.allocation = adopted.allocation or live.allocation
            runner.announce(live)

    async def _adopt_stray(self, stray: Found, *, silent: bool) -> None:
        """Stop an attempt that no job knows; a dead one may have left processes behind."""
        if not stray.alive:
            if stray.status is None or not stray.status.ended:
                self._keep(self._kill_survivors(self._tag_of(stray)))
            self.folders.forget(stray.job, stray.number)
            return
        live = await self._rejoin(stray)
        live.stray, live.silent = True, silent
        runner = self._runner(stray.job)
        if runner.live is not None:  # Another attempt of that job is alive as well.
            runner = JobRunner(stray.job, self)
        runner.adopt(live, -1)

    async def _rejoin(self, found: Found) -> LiveAttempt:
        """Watch an attempt of an earlier engine again; it is gone if its supervisor is."""
        if found.alive and found.supervisor is None:  # It is just beginning.
            found = await self._looking.until(
                lambda: adoption.look(self.folders, found.job, found.number),
                lambda seen: not seen.alive or seen.supervisor is not None,
                tries=TRIES_TO_MEET,
            )
        live = LiveAttempt(
            found.job,
            found.number,
            action=found.action,
            allocation=found.allocation(self._node.name) or self._unused(),
            folder=found.folder,
            tag=self._tag_of(found),
        )
        supervisor = found.supervisor if found.alive else None
        live.watch(None if supervisor is None else supervisor.process)
        if not live.gone.done():
            self._hold(live)
            self._keep(self._make_ready(live))
        return live

    async def _make_ready(self, live: LiveAttempt) -> None:
        """Its pipe ended with the earlier engine: its status says when its ranks run."""
        await self._looking.until(
            lambda: attempt_folders.read_status(live.folder),
            lambda status: status is not None or live.gone.done(),
            tries=None,
        )
        if not live.gone.done():
            live.set_ready(running=True)

    def _unused(self) -> Allocation:
        """For attempts that ended before they held a device."""
        return Allocation((Device(self._node.name, 0),))

    # -- the runners' side ----------------------------------------------------------------------

    def tell(self, fact: Event) -> None:
        if isinstance(fact, AttemptEnded):
            self._ends.add(fact)
        self._controls.tell(fact)

    def ask(self, order: Launching) -> Launch:
        return self._controls.launch(order.job, order.id, order.allocation)

    def in_the_way(self, order: Launching) -> list[LiveAttempt]:
        turn = order.allocation.turn
        slots = ((device.number, turn) for device in order.allocation.devices)
        return [self._holders[slot] for slot in slots if slot in self._holders]

    async def objection(self, order: Launching) -> str:
        self._check(order)
        numbers = [device.number for device in order.allocation.devices]
        return await self.device_watch.objection(numbers)

    async def launch(self, order: Launching, launch: Launch) -> LiveAttempt:
        """Have a supervisor started; it reports when the ranks run."""
        tag = self._tag(launch.job, launch.attempt)
        try:
            live = self._ordered(order, launch, tag)
        except OSError:
            self._scopes.kill(tag)
            self.folders.forget(launch.job, launch.attempt)
            raise
        self._hold(live)
        return live

    def _ordered(self, order: Launching, launch: Launch, tag: str) -> LiveAttempt:
        folder = self.folders.make(launch.job, launch.attempt, action=order.id)
        live = LiveAttempt(
            launch.job,
            launch.attempt,
            action=order.id,
            allocation=order.allocation,
            folder=folder,
            tag=tag,
        )
        live.launch = launch
        document = order_document(
            launch,
            order.allocation,
            action=order.id,
            tag=tag,
            paths=Paths(folder, self._checkpoints.make(launch), self._scopes.make(tag)),
            uuids=self._devices.uuids,
            around=self._around,
        )
        live.listen(self.fork_server.launch(document))
        return live

    async def suspect(self) -> None:
        await self.machine.suspect()

    async def rival(self, live: LiveAttempt) -> LiveAttempt | None:
        found = await self._looking.patiently(
            lambda: adoption.look(self.folders, live.job, live.number)
        )
        if not found.alive:
            return None
        other = await self._rejoin(found)
        other.launch = live.launch
        self._free(live)
        return other

    async def end_of(self, live: LiveAttempt) -> AttemptEnded:
        """How it ended, from its folder; survivors of a killed supervisor are killed first.

        While its files cannot be read, it is not known to be over, and keeps its devices.
        """
        supervisor, status = await self._looking.patiently(
            lambda: (
                attempt_folders.read_supervisor(live.folder),
                attempt_folders.read_status(live.folder),
            )
        )
        found = Found(live.job, live.number, live.folder, False, supervisor, status)
        ended = ended_of(
            found,
            action=live.action,
            failure=live.failure,
            lacked=live.lacked,
            ranks=live.ranks,
        )
        if ended.how is How.MACHINE_ERROR:
            await self.suspect()
        if found.status is None or not found.status.ended:
            await self._kill_survivors(live.tag)
            await asyncio.to_thread(attempt_folders.try_to_seal, live.folder, ended.how)
        return ended

    async def release(self, live: LiveAttempt) -> None:
        """Its end has been reported: other jobs may have its devices once they are clean."""
        self.folders.forget(live.job, live.number)
        if self._devices.watched:
            self._keep(self._clean_and_free(live))
        else:
            self._free(live)

    def retire(self, runner: JobRunner) -> None:
        if self._runners.get(runner.job) is runner:
            del self._runners[runner.job]

    # -- leaves ---------------------------------------------------------------------------------

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

    def _hold(self, live: LiveAttempt) -> None:
        for slot in live.slots:
            self._holders[slot] = live

    async def _clean_and_free(self, live: LiveAttempt) -> None:
        numbers = {device.number for device in live.allocation.devices}
        live.over = True
        await self.device_watch.clean(numbers, live.tag, job=live.job)
        self._free(live)

    def _free(self, live: LiveAttempt) -> None:
        live.released = True
        for slot in live.slots:
            if self._holders.get(slot) is live:
                del self._holders[slot]
        for runner in list(self._runners.values()):
            runner.devices_were_released()

    async def _kill_survivors(self, tag: str) -> None:
        self._scopes.kill(tag)
        await self._looking.until(
            lambda: processes.kill_tagged(TAG, tag),
            lambda found: not found,
            tries=TRIES_TO_KILL,
        )

    def _begins(self, attempt: AttemptId) -> int | None:
        """How many ranks an attempt has that runs or is about to; None if neither."""
        runner = self._runners.get(attempt.job)
        if runner is None:
            return None
        if runner.live is not None and runner.live.id == attempt:
            return runner.live.ranks or 1
        try:
            return 1 if runner.launching and not is_folder(self.folders.path(*attempt)) else None
        except EngineError:  # No attempt of that name can be launched.
            return None

    def _runner(self, job: JobId) -> JobRunner:
        if job not in self._runners:
            self._runners[job] = JobRunner(job, self)
        return self._runners[job]

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it as a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _supervisors(self) -> list[int]:
        lives = (runner.live for runner in self._runners.values())
        return [live.process.pid for live in lives if live is not None and live.process is not None]

    def _held(self) -> set[int]:
        return {number for (number, _), live in self._holders.items() if not live.over}

    def _tag(self, job: JobId, attempt: int) -> str:
        return f"{self.folders.instance}-{job}-{attempt}"

    def _tag_of(self, found: Found) -> str:
        return found.supervisor.tag if found.supervisor else self._tag(found.job, found.number)

    def _check(self, order: Launching) -> None:
        for device in order.allocation.devices:
            if device.node != self._node.name or device.number >= len(self._devices.uuids):
                raise EngineError(
                    f"job {order.job} was given device {device}, which this machine does not have",
                    retryable=False,
                )
