"""An engine whose jobs exist in memory only, for tests of the controller and for trials.

A job does what its command says, a sequence of steps joined by `;`:

    true, false, exit N    end with that exit code
    echo TEXT              write a line; $RANK is the number of the rank
    sleep S, forever       wait, by the clock of the controller
    announce CHANGE ...    what it can change while it runs: size, devices, plan, turn, host
    no-such-command        it cannot be launched

Other commands exit with 0 at once. Tests can drive jobs, devices and nodes. What runs is kept in a
`MemoryWorld`; a second engine over the same world adopts it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.attempt import NOT_LAUNCHED_CODE, How
from treadle.core.cluster import Device, Node
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.events import (
    AttemptEnded,
    DeviceClosed,
    DeviceOpened,
    Event,
    NodeDrained,
    NodeJoined,
    NodeLost,
)
from treadle.core.job import Job, JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.lifecycle import Phase
from treadle.core.machine import (
    DeviceOrder,
    JobFiles,
    Leftovers,
    Measurement,
    NodeOrder,
    NodeView,
    Output,
)
from treadle.core.sighting import Load
from treadle.engines.context import EngineContext
from treadle.engines.memory_world import (
    STOPPED_CODE,
    Held,
    MemoryAttempt,
    MemoryWorld,
    places_of,
)

DEVICES = 4
FOLLOW_BYTES = 1 << 16  # of one piece
NO_SUCH_COMMAND = "no-such-command"
NOT_FOUND_CODE = 127  # as shells write it
ORDERED_CAUSES = ("avoided", "quarantined")  # closed until ordered otherwise, also over a restart
_GOES_ON = (How.STOPPED, How.REPLACED)


@dataclass(frozen=True)
class _Pending:
    """An order to launch or to change, and the attempts that must release devices first."""

    order: Start | Change
    behind: tuple[tuple[MemoryAttempt, Allocation], ...]

    @property
    def waits(self) -> bool:
        return any(other.ended is None and other.allocation == held for other, held in self.behind)


def memory_engine(context: EngineContext) -> "MemoryEngine":
    options = context.options
    if options.gpus or options.avoid:
        raise InvalidInputError("the memory engine has no GPUs to choose from")
    node = Node(options.node_name, DEVICES if options.devices is None else options.devices, "none")
    return MemoryEngine(context, MemoryWorld.of(node))


class MemoryEngine:
    """Carries out orders at once, on devices that do not exist."""

    def __init__(self, context: EngineContext, world: MemoryWorld) -> None:
        self.world, self.address = world, ""
        self._controls, self._clock, self._root = context.controls, context.clock, context.root
        self._pending: dict[JobId, _Pending] = {}
        self._ordered: dict[Device, DeviceClosed] = {}  # devices closed for an ordered cause
        self._left = False

    # -- the controller's side ------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        return tuple(self.world.nodes.values())

    def view(self) -> tuple[NodeView, ...]:
        return self.world.view({**self.world.closed, **self._ordered})

    async def adopt(
        self,
        jobs: Sequence[Job],
        attempts: Sequence[AttemptId] = (),
        closed: Mapping[Device, DeviceClosed] = MappingProxyType({}),
        nodes: Mapping[AttemptId, Collection[str]] = MappingProxyType({}),  # noqa: ARG002
    ) -> None:
        self._restore(closed)
        own = {
            identity.job: identity
            for identity in sorted(attempts)
            if identity in self.world.attempts
        }
        known = [attempt for job in jobs if (attempt := self._of_hold(job, own)) is not None]
        for attempt in self.world.running():
            if attempt not in known:
                self._finish(attempt, How.REPLACED, tell=False)
        for identity in attempts:
            over = self.world.attempts.get(identity)
            if over is not None and over.ended is not None and over not in known:
                self._tell(replace(over.ended, how=How.REPLACED))
        for job in jobs:
            if job.allocation is not None or job.phase in (Phase.STOPPING, Phase.CANCELLING):
                self._adopt(job, self._of_hold(job, own))
        self._go_on()

    async def carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self._take(action)
        self._go_on()

    async def output(
        self, attempt: AttemptId, rank: int, *, offset: int = 0, limit: int = 65536
    ) -> Output:
        return self.world.attempt(attempt).read(rank, offset, limit)

    async def follow(
        self, attempt: AttemptId, rank: int, *, offset: int = 0
    ) -> AsyncIterator[Output]:
        source = self.world.attempt(attempt)
        while True:
            found = source.read(rank, offset, FOLLOW_BYTES)
            if found.data:
                offset = found.offset + len(found.data)
                yield found
            elif source.ended is not None:
                return
            else:
                source.wrote.clear()
                await source.wrote.wait()

    async def order_device(self, device: Device, order: DeviceOrder) -> None:
        if not self.world.has(device):
            raise InvalidInputError(f"there is no device {device}")
        if order is DeviceOrder.AVOID:
            self.close_device(device, "avoided", f"an admin avoids device {device}")
        elif self._ordered.pop(device, None) is not None:
            self._tell(self.world.closed.get(device, DeviceOpened(device)))

    async def order_node(self, node: str, order: NodeOrder) -> None:
        if node not in self.world.nodes:
            raise InvalidInputError(f"there is no node {node}")
        if order is NodeOrder.FORGET:
            raise InvalidInputError(f"node {node} is there")
        drained = node in self.world.drained
        if order is NodeOrder.DRAIN and not drained:
            self.world.drained.add(node)
            self._tell(NodeDrained(node))
        elif order is NodeOrder.UNDRAIN and drained:
            self.world.drained.discard(node)
            self._tell(NodeJoined(self.world.nodes[node], undrained=True))

    async def pack(self, workdir: str, uid: int | None, gid: int | None) -> JobFiles:  # noqa: ARG002
        return JobFiles()

    async def keep_archives(self, names: Collection[str]) -> None:
        pass

    def measurements(self) -> Sequence[Measurement]:
        running = [each for each in self.world.running() if each.started and each.places]
        held = Counter(device for each in running for device in each.allocation.devices)
        found = []
        for each in running:
            load = self.world.loads.get(each.launch.job, Load())
            busy = self.world.busy.get(each.launch.job, load.busy)
            alone = all(held[device] == 1 for device in each.allocation.devices)
            found.append(Measurement(each.launch.id, busy, load, self._clock.now(), alone=alone))
        return found

    async def tidy(self, jobs: Sequence[JobId]) -> list[Leftovers]:
        return [Leftovers() for _ in jobs]  # Nothing is kept on a disk.

    async def discard(self, job: JobId) -> Leftovers:  # noqa: ARG002
        return Leftovers()

    async def close(self) -> None:
        """Leave; programs go on once they are adopted, as if they had never paused."""
        self._left = True
        tasks = []
        for attempt in self.world.running():
            if attempt.task is not None:
                attempt.task.cancel()
                tasks.append(attempt.task)
                attempt.task = None
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- for tests ------------------------------------------------------------------------------

    def finish(self, job: JobId, code: int = 0, how: How = How.EXITED) -> None:
        """End the running attempt of a job as if it had ended by itself."""
        self._finish(self._running(job), how, code)
        self._go_on()

    def write(self, job: JobId, data: bytes, rank: int = 0) -> None:
        """Write output as a rank of the running attempt."""
        self._running(job).write(rank, data)

    def hang(self, job: JobId) -> None:
        """Let starts and stops of a job hang until `release`."""
        self.world.hanging.add(job)

    def release(self, job: JobId) -> None:
        self.world.hanging.discard(job)
        self._go_on()

    def close_device(self, device: Device, cause: str, reason: str) -> None:
        closures = self._ordered if cause in ORDERED_CAUSES else self.world.closed
        closures[device] = DeviceClosed(device, reason, cause)
        self._tell(closures[device])

    def open_device(self, device: Device) -> None:
        """Open a device, whatever closed it."""
        closures = [self._ordered.pop(device, None), self.world.closed.pop(device, None)]
        if any(closures):
            self._tell(DeviceOpened(device))

    def add_node(self, node: Node) -> None:
        self.world.nodes[node.name] = node
        self.world.drained.discard(node.name)
        self._tell(NodeJoined(node))

    def lose_node(self, name: str) -> None:
        """Lose a node and all that runs there."""
        del self.world.nodes[name]
        self.world.drained.discard(name)
        self._tell(NodeLost(name, "the test lost it"))
        for attempt in self.world.running():
            if name in attempt.allocation.nodes():
                self._finish(attempt, How.LOST)
        self._go_on()

    # -- orders ---------------------------------------------------------------------------------

    def _take(self, action: Action) -> None:
        job, live = action.job, self.world.live(action.job)
        pending = self._pending.pop(job, None)
        if isinstance(action, Stop):
            if live is None:
                self._nothing_runs(action)
            else:
                live.stop = action.id
        elif live is not None or pending is not None or not self._has_ended(action):
            others = [self.world.live(other) for other in action.after if other != job]
            behind = tuple((other, other.allocation) for other in others if other is not None)
            self._pending[job] = _Pending(action, behind)

    def _has_ended(self, order: Start | Change) -> bool:
        """Whether the job ended while the order was written down; the order is then answered."""
        if isinstance(order, Change):
            self._nothing_runs(order)
            return True
        # A Start behind a Stop of the same list is a change as well. It begins a new hold in the
        # scheduler, so the end is repeated under its id.
        newest = self.world.newest(order.job)
        ended = None if newest is None else newest.ended
        if order.job not in order.after or ended is None or ended.how in _GOES_ON:
            return False
        self._tell(replace(ended, action=order.id))
        return True

    def _restore(self, closed: Mapping[Device, DeviceClosed]) -> None:
        """Report what the controller does not know of its devices and nodes after a restart."""
        ordered = {d: closure for d, closure in closed.items() if closure.cause in ORDERED_CAUSES}
        self._ordered.update(ordered)
        for device in {**closed, **self.world.closed}:
            closure = self._ordered.get(device) or self.world.closed.get(device)
            if closure is None and self.world.has(device):
                self._tell(DeviceOpened(device))
            elif closure is not None and closure != closed.get(device):
                self._tell(closure)
        for name in sorted(self.world.drained):
            self._tell(NodeDrained(name))

    def _adopt(self, job: Job, attempt: MemoryAttempt | None) -> None:
        """Carry out the newest order about a job, as far as that has not been done."""
        ended = None if attempt is None else attempt.ended
        if ended is not None:
            leaves = job.allocation is None and ended.how is How.REPLACED
            self._tell(replace(ended, action=job.action, how=How.STOPPED if leaves else ended.how))
            if ended.how is not How.REPLACED or leaves:
                return
        if job.allocation is None or job.phase is Phase.CANCELLING:
            self._take(Stop(job.action, job.id))
        elif attempt is None or ended is not None or attempt.action != job.action:
            self._pending[job.id] = _Pending(Change(job.action, job.id, job.allocation), ())
        elif job.phase is Phase.STARTING:
            attempt.started = False  # Report it again.
        if attempt is not None and attempt.started:
            self._resume(attempt)

    def _go_on(self) -> None:
        """Do all that can be done now.

        A thousand starts of one decision are a thousand steps here, while nothing else is done.
        """
        while not self._left and (self._step_all() or self._begin_all()):
            pass

    def _step_all(self) -> bool:
        """One step of each attempt that has one to make; whether any had."""
        stepped = [self._step(attempt) for attempt in self.world.running()]
        return any(stepped)

    def _begin_all(self) -> bool:
        """Begin what can begin; whether a change has freed devices for what was before it."""
        held = self.world.held()
        for pending in list(self._pending.values()):
            job = pending.order.job
            changes = self.world.live(job) is not None
            if not self._begin(pending, held):
                continue
            if changes:
                return True
            if (attempt := self.world.live(job)) is not None:
                for place in attempt.places:
                    held.setdefault(place, set()).add(job)
                self._step(attempt)
        return False

    def _step(self, attempt: MemoryAttempt) -> bool:
        """Stop an attempt or report its start, if that is due; whether it was."""
        pending = self._pending.get(attempt.launch.job)
        if attempt.launch.job in self.world.hanging:
            return False
        if attempt.stop is not None:
            self._finish(attempt, How.STOPPED, action=attempt.stop)
        elif pending is not None and not attempt.can_become(pending.order):
            self._finish(attempt, How.REPLACED)
        elif not attempt.started and pending is None:
            self._report(attempt)
            self._resume(attempt)
        else:
            return False
        return True

    def _pause(self, order: Start | Change, live: MemoryAttempt | None) -> None:
        if live is None:  # Nothing runs that could be paused.
            self._tell(AttemptEnded(order.job, order.id, 0, How.STOPPED))
            return
        refused = self.world.refusing.get(order.job, "")
        kept = live.allocation if refused else order.allocation
        live.change(order.id, kept, self._clock.now(), self.world.pause_takes_s)
        self._report(live, refused)

    def _report(self, attempt: MemoryAttempt, refused: str = "") -> None:
        """That it runs or is paused; refused: why it is not paused."""
        whole = len(attempt.allocation.nodes()) == 1
        pauses = self.world.pauses if whole and not refused else ()
        self._tell(attempt.report(self._clock.now(), pauses, refused))

    def _begin(self, pending: _Pending, held: Held) -> bool:
        """Launch or change an attempt, if the devices are free; whether that was done."""
        order = pending.order
        live = self.world.live(order.job)
        places = places_of(order.allocation)
        in_use = any(held.get(place, set()) - {order.job} for place in places)
        if pending.waits or in_use or (live and not live.can_become(order)):
            return False
        del self._pending[order.job]
        if order.allocation.paused:
            self._pause(order, live)
            return True
        try:
            launch = self._controls.launch(order.job, order.id, order.allocation)
        except EngineError as error:
            self._fail(order, 0, How.ENGINE_ERROR, NOT_LAUNCHED_CODE, str(error))
            return True
        if live is not None:
            done, speed = launch.iterations_done, launch.iterations_per_s
            live.launch = replace(live.launch, iterations_done=done, iterations_per_s=speed)
            takes_s = self.world.pause_takes_s
            live.change(order.id, order.allocation, self._clock.now(), takes_s)
        else:
            self._launch(order, launch)
        return True

    def _launch(self, order: Start | Change, launch: Launch) -> None:
        missing = [device for device in order.allocation.devices if not self.world.has(device)]
        if missing:
            sentence = f"job {order.job} was given device {missing[0]}, which does not exist"
            self._fail(order, launch.attempt, How.ENGINE_ERROR, NOT_LAUNCHED_CODE, sentence)
        elif any(self._takes_nothing(device) for device in order.allocation.devices):
            self._nothing_runs(order)
        elif launch.command[:1] == (NO_SUCH_COMMAND,):
            sentence = f"the command {NO_SUCH_COMMAND} cannot be executed"
            self._fail(order, launch.attempt, How.NOT_LAUNCHED, NOT_FOUND_CODE, sentence)
        else:
            self.world.begin(MemoryAttempt(launch, order.id, order.allocation))

    # -- programs -------------------------------------------------------------------------------

    def _resume(self, attempt: MemoryAttempt) -> None:
        paused = attempt.allocation.paused is not None
        if not (self._left or paused) and (attempt.task is None or attempt.task.done()):
            attempt.task = asyncio.get_running_loop().create_task(self._run(attempt))

    async def _run(self, attempt: MemoryAttempt) -> None:
        how, code = await attempt.run(self._clock)
        attempt.task = None  # It ends here and need not be cancelled.
        self._finish(attempt, how, code)
        self._go_on()

    # -- leaves ---------------------------------------------------------------------------------

    def _finish(
        self,
        attempt: MemoryAttempt,
        how: How,
        code: int = STOPPED_CODE,
        *,
        action: int | None = None,
        tell: bool = True,
    ) -> None:
        """End an attempt. If it ended by itself, that answers the orders that came meanwhile.

        The clock is the run's own, so the end says how long it ran and not when.
        """
        job = attempt.launch.job
        newest = self._newest_order(attempt)
        if how not in _GOES_ON:
            self._pending.pop(job, None)
        ended = AttemptEnded(
            job,
            newest if action is None else action,
            attempt.launch.attempt,
            how,
            code,
            node_lost=how is How.LOST,
            codes=(code,) * attempt.launch.ranks,
            ran_s=attempt.ran_s(self._clock.now()),
        )
        self.world.end(attempt, ended)
        if tell:
            self._tell(ended)

    def _fail(
        self, order: Start | Change, attempt: int, how: How, code: int, sentence: str
    ) -> None:
        self._tell(AttemptEnded(order.job, order.id, attempt, how, code, error=sentence))

    def _nothing_runs(self, order: Action) -> None:
        """Answer an order after which nothing runs of the job."""
        self._tell(AttemptEnded(order.job, order.id, 0, How.STOPPED))

    def _tell(self, fact: Event) -> None:
        if not self._left:
            self._controls.tell(fact)

    def _running(self, job: JobId) -> MemoryAttempt:
        live = self.world.live(job)
        assert live is not None, f"nothing runs of job {job}"
        return live

    def _newest_order(self, attempt: MemoryAttempt) -> int:
        """The id of the newest order about the job of an attempt that runs."""
        pending = self._pending.get(attempt.launch.job)
        if pending is not None:
            return pending.order.id
        return attempt.action if attempt.stop is None else attempt.stop

    def _of_hold(self, job: Job, own: Mapping[JobId, AttemptId]) -> MemoryAttempt | None:
        """The newest attempt of a job, if it belongs to the present hold.

        own: the newest attempt of each job whose end the controller has not seen.
        """
        newest = self.world.attempts[own[job.id]] if job.id in own else None
        is_over = job.phase is Phase.WAITING or newest is None or newest.action < job.attempt
        return None if is_over else newest

    def _takes_nothing(self, device: Device) -> bool:
        is_closed = device in self._ordered or device in self.world.closed
        return is_closed or device.node in self.world.drained
