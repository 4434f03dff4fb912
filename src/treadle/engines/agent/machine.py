"""One machine: the attempts that run there, and everything that it takes to run them.

Each attempt has a run (attempt_run.py). The machine itself knows which attempt holds which turn of
which device. It launches nothing there before that attempt is gone and the device is clean.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.cluster import Device, Node
from treadle.core.errors import EngineError
from treadle.core.events import AttemptEnded, DeviceClosed
from treadle.core.job import JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.machine import DeviceOrder, Leftovers, Measurement, NodeView
from treadle.core.ports import Clock
from treadle.engines.agent import end_facts, found
from treadle.engines.agent.attempt_groups import AttemptGroups
from treadle.engines.agent.attempt_guard import USUAL, AttemptGuard, clear_group
from treadle.engines.agent.attempt_launch import AttemptLaunch
from treadle.engines.agent.attempt_run import AttemptRun
from treadle.engines.agent.device_holders import DeviceHolders
from treadle.engines.agent.end_facts import ended_of
from treadle.engines.agent.found import Found
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.live_changes import LiveChanges
from treadle.engines.agent.machine_pause import TROUBLE, MachinePause, TrialLaunch
from treadle.engines.agent.machine_view import node_view, watched
from treadle.engines.agent.messages import Fact, Wanted
from treadle.engines.agent.node_gate import NodeGate
from treadle.engines.agent.output_reader import OutputReader
from treadle.engines.agent.patient_looks import PatientLooks
from treadle.engines.agent.pausing import Pauses
from treadle.engines.agent.rejoining import Rejoining
from treadle.engines.agent.warm_pool import WarmPool
from treadle.engines.context import EngineOptions
from treadle.engines.node import memory_folder
from treadle.engines.node.attempt_folders import AttemptFolders, read_status
from treadle.engines.node.cgroup import Containment
from treadle.engines.node.checkpoint_folders import CheckpointFolders
from treadle.engines.node.device_watch import DeviceWatch
from treadle.engines.node.devices import DeviceSource
from treadle.engines.node.fork_client import ForkServer
from treadle.engines.node.leftovers import LeftoverFolders
from treadle.engines.node.mps import Mps
from treadle.engines.node.observer import Observer
from treadle.engines.node.order_document import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineParts:
    """What a machine is made from."""

    root: Path
    node: Node
    devices: DeviceSource
    excluded: Collection[int]
    options: EngineOptions
    around: Surroundings
    clock: Clock
    tell: Callable[[Fact], None]
    fitted: Callable[[Launch], Launch]  # a launch as it is on this node; it may look at files


class Machine:
    """What one controller has done here; the next one has another."""

    def __init__(self, parts: MachineParts) -> None:
        root, clock, devices = parts.root, parts.clock, parts.devices
        self.folders, self.fork_server = AttemptFolders(root), ForkServer()
        self.tell, self._clock, self.devices = parts.tell, clock, devices
        self.node = parts.node
        self.device_watch = DeviceWatch(
            devices,
            parts.node.name,
            instance=self.folders.instance,
            clock=clock,
            report=parts.tell,
            excluded=parts.excluded,
        )
        self.device_watch.supervisors = self._supervisors
        self.holders = DeviceHolders(self.device_watch, self._wake_runs)
        self.device_watch.held = self.holders.numbers
        trial = TrialLaunch(root, self.fork_server)
        self.pause = MachinePause(trial, clock, self.device_watch.pause)
        self.observer = Observer(
            devices, clock, lambda: watched(self.holders.by_slot, self.node, self.mps)
        )
        self.gate = NodeGate(root, self.node, parts.tell)
        where = parts.around.checkpoints or root
        self.checkpoints = CheckpointFolders(where)
        self.leftovers = LeftoverFolders(self.folders, self.checkpoints)
        self.outputs = OutputReader(self.folders, self._ranks_of)
        self.groups = AttemptGroups(self.folders, Containment(parts.around.cgroups))
        self.mps = Mps.here(root, self.folders.instance, devices.kind)
        containment, enabled = self.groups.containment, parts.options.warm
        self.warm = WarmPool(self.folders, containment, self.fork_server, enabled=enabled)
        self.launches = AttemptLaunch(self, parts.around, parts.fitted)
        self.changes = LiveChanges(self.launches, self.holders)
        self.pauses = Pauses(devices, self.mps, self.holders)
        self.looks = PatientLooks(clock, self.suspect)
        self._rejoining = Rejoining(self)
        self.deadlines = USUAL  # after which the agent acts in a supervisor's place
        self.runs: dict[AttemptId, AttemptRun] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    # -- the controller's side ------------------------------------------------------------------

    async def begin(
        self,
        wanted: Sequence[Wanted],
        over: Collection[AttemptId],
        closed: Iterable[DeviceClosed],
    ) -> None:
        """Watch what runs, tell what ended, carry out what is wanted, stop everything else.

        An end may be told a second time, if the controller was killed before it wrote the first one
        down.
        """
        self.device_watch.restore({each.device: each for each in closed})
        self.gate.begin()
        self.device_watch.begin()
        self.observer.begin()
        self.keep(self.mps.watch(self._clock))
        with suppress(*TROUBLE):  # What is left of an earlier engine does no harm.
            await self.warm.clear()
        await self._rejoining.adopt(wanted, over)

    def order(self, wanted: Wanted) -> None:
        """Take what is wanted of an attempt. Nothing is answered of one that has ended."""
        if (known := self.runs.get(wanted.attempt)) is not None:
            known.order(wanted)
            return
        run = AttemptRun(wanted, self)
        if run.begins:
            self.runs[run.id] = run
            run.begin()

    def view(self) -> NodeView:
        containment = self.groups.containment
        return node_view(self.gate, self.holders.by_slot, self.device_watch, containment)

    def measurements(self) -> Sequence[Measurement]:
        return self.observer.measurements()

    def order_device(self, device: Device, order: DeviceOrder) -> None:
        if order is DeviceOrder.AVOID:
            self.device_watch.avoid(device.number)
        else:
            self.device_watch.manage(device.number)

    async def tidy(self, jobs: Sequence[JobId]) -> tuple[Leftovers, ...]:
        return await self._of_ended(jobs, self.leftovers.tidy)

    async def discard(self, jobs: Sequence[JobId]) -> tuple[Leftovers, ...]:
        return await self._of_ended(jobs, self.leftovers.discard)

    async def _of_ended(
        self, jobs: Sequence[JobId], work: Callable[[JobId], Leftovers]
    ) -> tuple[Leftovers, ...]:
        running = {run.job for run in self.runs.values()}

        def done() -> tuple[Leftovers, ...]:
            return tuple(Leftovers() if job in running else work(job) for job in jobs)

        return await asyncio.to_thread(done)

    async def close(self) -> None:
        """Stop watching; jobs run on."""
        for run in list(self.runs.values()):
            await run.leave()
        self.runs.clear()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.pause.close()
        await self.device_watch.close()
        await self.observer.close()
        await self.warm.close()
        await asyncio.to_thread(self.fork_server.close)

    # -- the runs' side -------------------------------------------------------------------------

    def in_the_way(self, allocation: Allocation) -> list[LiveAttempt]:
        return self.holders.of(allocation)

    def is_stuck(self, allocation: Allocation) -> bool:
        return self.holders.are_stuck(allocation)

    async def objection(self, allocation: Allocation) -> str:
        """Why nothing may be launched on these devices now; empty if it may."""
        numbers = [device.number for device in allocation.devices]
        return self.gate.objection() or await self.device_watch.objection(numbers)

    def attempt(self, launch: Launch, allocation: Allocation, action: int) -> LiveAttempt:
        """The attempt that is launched next. It holds its devices from here on."""
        live = self.launches.attempt(launch, allocation, action=action)
        live.on_undying = self.holders.undying
        self.holders.hold(live)
        return live

    async def launch(self, live: LiveAttempt) -> None:
        try:
            await self.launches.run(live)
        except (*TROUBLE, EngineError):
            self.holders.free(live)
            raise
        self.guard(live, self.fork_server)

    async def suspect(self) -> None:
        await self.pause.suspect()

    async def rival(self, live: LiveAttempt) -> LiveAttempt | None:
        seen = await self.looks.seen(lambda: found.look(self.folders, live.id))
        if not seen.alive:
            return None
        other = await self._rejoining.rejoin(seen, live.allocation)
        other.launch = live.launch
        self.holders.free(live)
        return other

    async def end_of(self, live: LiveAttempt) -> AttemptEnded | None:
        """How it ended, from its folder; survivors of a killed supervisor are killed first.

        None if another supervisor has it (`taken`). While its files cannot be read, it is not known
        to be over, and keeps its devices.
        """
        left = await self.looks.seen(lambda: self._left_by(live))
        ended = ended_of(
            left, action=live.action, failure=live.failure, lacked=live.lacked, ranks=live.ranks
        )
        if ended.how is How.MACHINE_ERROR:
            await self.suspect()
        ended = live.as_told(ended, unsaid=not left.ended)
        if not left.ended:
            await clear_group(live, self.deadlines)
            if not await asyncio.to_thread(end_facts.seal, live.folder, ended):
                live.taken = True
                return None
        return ended

    async def release(self, live: LiveAttempt) -> None:
        """Its end has been reported: other jobs may have its devices once they are clean."""
        if live.marked:
            await self.looks.seen(lambda: self._clear_and_forget(live))
        if self.mps.is_client(live.id):
            await self.looks.seen(lambda: self.mps.leave(live.id))
        if self.devices.watched:
            self.keep(self._clean_and_free(live))
        else:
            self.holders.free(live)

    def retire(self, run: AttemptRun) -> None:
        if self.runs.get(run.id) is run:
            del self.runs[run.id]

    def guard(self, live: LiveAttempt, fork_server: ForkServer | None = None) -> None:
        """Watch over the attempt until its supervisor is gone.

        From the first trouble on, or after a while: most attempts of less than that need no guard.
        """
        guard = AttemptGuard(live, fork_server, self.deadlines)
        live.guard_by(lambda: self.keep(self.looks.done(guard.run)), after_s=self.deadlines.first_s)

    def keep(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run it as a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # -- leaves ---------------------------------------------------------------------------------

    def _left_by(self, live: LiveAttempt) -> Found:
        """What it left. If that says how it ended, its mark is not needed any more."""
        status = read_status(live.folder)
        if status is None or not status.ended:
            return found.left_by(live.id, live.folder)
        self._forget(live)
        return Found(live.id, live.folder, False, None, status)

    def _clear_and_forget(self, live: LiveAttempt) -> None:
        memory_folder.remove_of(live.tag)  # Its supervisor was killed, and did not.
        self._forget(live)

    def _forget(self, live: LiveAttempt) -> None:
        self.folders.forget(*live.id)
        if live.process is None:  # Otherwise its supervisor did.
            live.scope.remove()
        live.marked = False

    async def _clean_and_free(self, live: LiveAttempt) -> None:
        live.over = True
        clean = self.device_watch.clean
        await self.looks.done(lambda: clean(set(live.numbers), live.tag, job=live.job))
        self.holders.free(live)

    def _wake_runs(self) -> None:
        for run in list(self.runs.values()):
            run.look_again()

    def _ranks_of(self, attempt: AttemptId) -> int | None:
        run = self.runs.get(attempt)
        return None if run is None else run.ranks or 1

    def _supervisors(self) -> list[int]:
        lives = (run.live for run in self.runs.values())
        return [live.process.pid for live in lives if live is not None and live.process is not None]
