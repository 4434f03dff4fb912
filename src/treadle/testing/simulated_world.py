"""The simulated engine as a live one, with a clock that jumps when the controller is idle.

The controller sleeps only when it has nothing to do. That is the moment to jump to the next event
and to report it. `SimulatedWorld` is both the engine and the clock of such a controller. Facts go
to its inbox, or to the controls that it was given.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from types import MappingProxyType

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.attempt import How
from treadle.core.cluster import Device, Node
from treadle.core.errors import InvalidInputError
from treadle.core.events import (
    AttemptEnded,
    DeviceClosed,
    DeviceOpened,
    Event,
    JobFailed,
    JobFinished,
    JobStopped,
    NodeJoined,
    NodeLost,
)
from treadle.core.job import Job, JobId
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import (
    DeviceOrder,
    DeviceView,
    JobFiles,
    Leftovers,
    Measurement,
    NodeOrder,
    NodeView,
    Output,
)
from treadle.core.ports import Controls
from treadle.sim.engine import SimulatedEngine

End = JobFinished | JobFailed | JobStopped
ORDERED_CAUSES = ("avoided", "quarantined")  # closed until ordered otherwise, also over a restart


class SimulatedWorld:
    """A simulation behind the port of live engines."""

    def __init__(
        self,
        engine: SimulatedEngine,
        nodes: Sequence[Node] = (),
        *,
        controls: Controls | None = None,
    ) -> None:
        self.inbox: asyncio.Queue[Event | None] = asyncio.Queue()
        self.ended = asyncio.Event()  # nothing will happen any more
        self.address = ""
        self._engine = engine
        self._controls = controls
        self._nodes = {node.name: node for node in nodes}
        self._closed: dict[Device, DeviceClosed] = {}
        self._ends: dict[JobId, End] = {}  # the newest of each job
        self._now = 0.0

    def restarted(self, controls: Controls | None = None) -> "SimulatedWorld":
        """Another engine over the same simulation, as after a crash of the controller."""
        twin = SimulatedWorld(self._engine, tuple(self._nodes.values()), controls=controls)
        twin._now, twin._ends = self._now, self._ends
        return twin

    # -- the clock ------------------------------------------------------------------------------

    @property
    def next_at(self) -> float:
        """When something happens next by itself."""
        return self._engine.next_at

    def now(self) -> float:
        return self._now

    async def sleep_until(self, moment: float) -> None:
        now = min(moment, self._engine.next_at)
        if now == inf:
            self.ended.set()
            await asyncio.Event().wait()
        self._now = now
        events = self._engine.due(now)
        for event in events:
            self._report(event)
        if now < moment and not events:
            await asyncio.Event().wait()

    # -- the engine -----------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes.values())

    def view(self) -> tuple[NodeView, ...]:
        jobs: dict[Device, list[JobId]] = {}
        for job, (_, allocation) in self._engine.running().items():
            if allocation.paused:
                continue
            for device in allocation.devices:
                jobs.setdefault(device, []).append(job)

        def shown(device: Device) -> DeviceView:
            held = tuple(jobs.get(device, ()))
            return DeviceView.of(device, held, self._closed.get(device), model="simulated")

        return tuple(NodeView.of(node, shown) for node in self._nodes.values())

    async def adopt(
        self,
        jobs: Sequence[Job],
        attempts: Sequence[AttemptId] = (),  # noqa: ARG002
        closed: Mapping[Device, DeviceClosed] = MappingProxyType({}),
        nodes: Mapping[AttemptId, Collection[str]] = MappingProxyType({}),  # noqa: ARG002
    ) -> None:
        """Continue. A simulation runs only while it is driven, so few orders can be owed.

        attempts: a simulated job has no attempts that end one by one, so none has to be reported.
        """
        for device, closure in closed.items():
            if closure.cause in ORDERED_CAUSES:
                self._closed[device] = closure
            elif self._has(device):  # Nothing else closes a simulated device.
                self._report(DeviceOpened(device))
        running = self._engine.running()
        known = {job.id for job in jobs if job.phase is not Phase.WAITING}
        # Their JobStopped is about no job that the scheduler knows, and it ignores that.
        self._engine.carry_out([Stop(-1, job) for job in running if job not in known], self._now)
        for job in jobs:
            order, _ = running.get(job.id, (None, None))
            ended = self._ends.get(job.id)
            if job.phase in (Phase.STOPPING, Phase.CANCELLING):
                await self.carry_out([Stop(job.action, job.id)])
            elif job.allocation is None or order == job.action:
                continue
            elif order is None and ended is not None and ended.action >= job.attempt:
                self._report(replace(ended, action=job.action))
            else:
                kind = Start if order is None else Change
                self._engine.carry_out([kind(job.action, job.id, job.allocation)], self._now)

    async def carry_out(self, actions: Sequence[Action]) -> None:
        before = self._engine.running()
        running = set(before)
        carried = []
        for action in actions:
            answer = self._refusal(action, ran=action.job in before, runs=action.job in running)
            if answer is not None:
                self._report(answer)
                continue
            carried.append(action)
            if isinstance(action, Stop):
                running.discard(action.job)
            else:
                running.add(action.job)
        self._engine.carry_out(carried, self._now)

    async def output(
        self,
        attempt: AttemptId,
        rank: int,  # noqa: ARG002
        *,
        offset: int = 0,  # noqa: ARG002
        limit: int = 65536,  # noqa: ARG002
    ) -> Output:
        raise InvalidInputError(f"job {attempt.job} is simulated and writes no output")

    async def follow(
        self, attempt: AttemptId, rank: int, *, offset: int = 0
    ) -> AsyncIterator[Output]:
        yield await self.output(attempt, rank, offset=offset)

    async def order_device(self, device: Device, order: DeviceOrder) -> None:
        if not self._has(device):
            raise InvalidInputError(f"there is no device {device}")
        if order is DeviceOrder.AVOID:
            self._closed[device] = DeviceClosed(
                device, f"an admin avoids device {device}", "avoided"
            )
            self._report(self._closed[device])
        elif self._closed.pop(device, None) is not None:
            self._report(DeviceOpened(device))

    async def order_node(self, node: str, order: NodeOrder) -> None:  # noqa: ARG002
        raise InvalidInputError(f"node {node} is simulated and cannot be drained")

    async def pack(self, workdir: str, uid: int | None, gid: int | None) -> JobFiles:  # noqa: ARG002
        return JobFiles()

    async def keep_archives(self, names: Collection[str]) -> None:
        pass

    def measurements(self) -> Sequence[Measurement]:
        """None: progress is reported by JobProgressed."""
        return ()

    async def tidy(self, job: JobId) -> Leftovers:  # noqa: ARG002
        return Leftovers()  # Nothing is kept on a disk.

    async def discard(self, job: JobId) -> Leftovers:  # noqa: ARG002
        return Leftovers()

    async def close(self) -> None:
        """Leave; the simulation stands still until another engine drives it."""

    # -- leaves ---------------------------------------------------------------------------------

    def _refusal(self, action: Action, *, ran: bool, runs: bool) -> Event | None:
        """The answer to an order that cannot be carried out; None if it can.

        ran: whether the job ran before these orders.
        """
        if isinstance(action, Stop | Change) and not runs:
            return AttemptEnded(action.job, action.id, 0, How.STOPPED)
        if isinstance(action, Stop):
            return None
        ended = self._ends.get(action.job)
        has_ended = not ran and action.job in action.after
        if has_ended and isinstance(ended, JobFinished | JobFailed):
            return replace(ended, action=action.id)
        for device in action.allocation.devices:
            if self._nodes and not self._has(device):
                sentence = f"job {action.job} was given device {device}, which does not exist"
                return AttemptEnded(action.job, action.id, 0, How.ENGINE_ERROR, error=sentence)
            if device in self._closed:
                return AttemptEnded(action.job, action.id, 0, How.STOPPED)
        return None

    def _report(self, fact: Event) -> None:
        match fact:
            case JobFinished() | JobFailed() | JobStopped():
                self._ends[fact.job] = fact
            case NodeLost():
                self._nodes.pop(fact.node, None)
            case NodeJoined():
                self._nodes[fact.node.name] = fact.node
            case _:
                pass
        if self._controls is None:
            self.inbox.put_nowait(fact)
        else:
            self._controls.tell(fact)

    def _has(self, device: Device) -> bool:
        node = self._nodes.get(device.node)
        return node is not None and 0 <= device.number < node.device_count
